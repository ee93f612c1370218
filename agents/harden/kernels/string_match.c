/* Where keys stand in a text (Boyer, Moore, Horspool), as Phoenix's string match. */
#include "input.h"

#include <stdio.h>
#include <string.h>

#define LETTERS 60000
static char text[LETTERS + 1];
static const char *const keys[] = {"abac", "dacab", "bbbbb", "cadcad", "acdbacd"};

static size_t matches(const char *key, unsigned *places) {
  const size_t length = strlen(key);
  size_t skip[256], found = 0;
  for (size_t letter = 0; letter < 256; letter++)
    skip[letter] = length;
  for (size_t place = 0; place + 1 < length; place++)
    skip[(unsigned char)key[place]] = length - 1 - place;
  for (size_t place = 0; place + length <= LETTERS;) {
    size_t left = length;
    while (left > 0 && text[place + left - 1] == key[left - 1])
      left--;
    if (left == 0) {
      found++;
      *places = *places * 31 + (unsigned)place;
    }
    place += skip[(unsigned char)text[place + length - 1]];
  }
  return found;
}

int main(int argc, char **argv) {
  for (size_t place = 0; place < LETTERS; place++)
    text[place] = (char)('a' + (draw() >> 30) % 4);
  for (size_t round = 0, all = rounds(argc, argv); round < all; round++)
    for (size_t key = 0; key < sizeof keys / sizeof *keys; key++) {
      unsigned places = 0;
      const size_t found = matches(keys[key], &places);
      if (round + 1 == all)
        printf("%s %zu %u\n", keys[key], found, places);
    }
  return 0;
}
