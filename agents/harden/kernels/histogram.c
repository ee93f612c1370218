/* Counts of red, green and blue in a picture, as Phoenix's histogram. */
#include "input.h"

#include <stdio.h>

#define PIXELS 12000
static unsigned char picture[3 * PIXELS];
static unsigned counts[3][256];

static void count(void) {
  for (size_t place = 0; place < sizeof picture; place += 3)
    for (size_t colour = 0; colour < 3; colour++)
      counts[colour][picture[place + colour]]++;
}

int main(int argc, char **argv) {
  for (size_t place = 0; place < sizeof picture; place++)
    picture[place] = (unsigned char)(draw() >> 20);
  for (size_t round = 0, all = rounds(argc, argv); round < all; round++)
    count();
  for (size_t value = 0; value < 256; value++)
    printf("%u %u %u\n", counts[0][value], counts[1][value], counts[2][value]);
  return 0;
}
