/* Clusters of points by Lloyd's algorithm, as Phoenix's k-means. */
#include "input.h"

#include <float.h>
#include <stdio.h>

#define POINTS 600
#define CLUSTERS 6
#define AXES 3
#define STEPS 12
static double points[POINTS][AXES], centres[CLUSTERS][AXES];

static double distance(const double *one, const double *other) {
  double sum = 0;
  for (size_t axis = 0; axis < AXES; axis++)
    sum += (one[axis] - other[axis]) * (one[axis] - other[axis]);
  return sum;
}

static size_t nearest(const double *point) {
  size_t best = 0;
  double least = DBL_MAX;
  for (size_t cluster = 0; cluster < CLUSTERS; cluster++) {
    const double found = distance(point, centres[cluster]);
    if (found < least) {
      least = found;
      best = cluster;
    }
  }
  return best;
}

static void step(void) {
  double sums[CLUSTERS][AXES] = {{0}};
  size_t members[CLUSTERS] = {0};
  for (size_t point = 0; point < POINTS; point++) {
    const size_t cluster = nearest(points[point]);
    members[cluster]++;
    for (size_t axis = 0; axis < AXES; axis++)
      sums[cluster][axis] += points[point][axis];
  }
  for (size_t cluster = 0; cluster < CLUSTERS; cluster++)
    for (size_t axis = 0; axis < AXES && members[cluster]; axis++)
      centres[cluster][axis] = sums[cluster][axis] / (double)members[cluster];
}

int main(int argc, char **argv) {
  for (size_t point = 0; point < POINTS; point++)
    for (size_t axis = 0; axis < AXES; axis++)
      points[point][axis] = (double)(draw() % 100000) / 1000;
  for (size_t cluster = 0; cluster < CLUSTERS; cluster++)
    for (size_t axis = 0; axis < AXES; axis++)
      centres[cluster][axis] = points[cluster][axis];
  for (size_t round = 0, all = STEPS * rounds(argc, argv); round < all; round++)
    step();
  for (size_t cluster = 0; cluster < CLUSTERS; cluster++)
    printf("%.9g %.9g %.9g\n", centres[cluster][0], centres[cluster][1], centres[cluster][2]);
  return 0;
}
