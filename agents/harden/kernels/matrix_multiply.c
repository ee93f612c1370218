/* The product of two square matrices of integers, as Phoenix's matrix multiply. */
#include "input.h"

#include <stdio.h>

#define SIDE 56
static int left[SIDE][SIDE], right[SIDE][SIDE];
static unsigned product[SIDE][SIDE];

static void multiply(void) {
  for (size_t row = 0; row < SIDE; row++)
    for (size_t column = 0; column < SIDE; column++) {
      unsigned sum = 0;
      for (size_t k = 0; k < SIDE; k++)
        sum += (unsigned)left[row][k] * (unsigned)right[k][column];
      product[row][column] += sum;
    }
}

int main(int argc, char **argv) {
  for (size_t row = 0; row < SIDE; row++)
    for (size_t column = 0; column < SIDE; column++) {
      left[row][column] = (int)(draw() % 2001) - 1000;
      right[row][column] = (int)(draw() % 2001) - 1000;
    }
  for (size_t round = 0, all = rounds(argc, argv); round < all; round++)
    multiply();
  for (size_t row = 0; row < SIDE; row++)
    for (size_t column = 0; column < SIDE; column++)
      printf("%u%c", product[row][column], column + 1 < SIDE ? ' ' : '\n');
  return 0;
}
