/* The line through points by least squares, as Phoenix's linear regression. */
#include "input.h"

#include <stdio.h>

#define POINTS 40000
static signed char xs[POINTS], ys[POINTS];

struct sums {
  long long x, y, xx, yy, xy;
};

static void sum(struct sums *sums) {
  for (size_t point = 0; point < POINTS; point++) {
    const long long x = xs[point], y = ys[point];
    sums->x += x;
    sums->y += y;
    sums->xx += x * x;
    sums->yy += y * y;
    sums->xy += x * y;
  }
}

int main(int argc, char **argv) {
  struct sums sums = {0};
  for (size_t point = 0; point < POINTS; point++) {
    xs[point] = (signed char)(draw() >> 25);
    ys[point] = (signed char)(xs[point] / 2 + (int)(draw() % 21) - 10);
  }
  const size_t all = rounds(argc, argv);
  for (size_t round = 0; round < all; round++)
    sum(&sums);
  const double n = (double)POINTS * (double)all;
  const double slope = (n * (double)sums.xy - (double)sums.x * (double)sums.y) /
                       (n * (double)sums.xx - (double)sums.x * (double)sums.x);
  printf("%lld %lld %lld %lld %lld\n", sums.x, sums.y, sums.xx, sums.yy, sums.xy);
  printf("%.9g %.9g\n", slope, ((double)sums.y - slope * (double)sums.x) / n);
  return 0;
}
