/* How often each word of a text is there, in a table of linked lists, as Phoenix's word count. */
#include "input.h"

#include <stdio.h>
#include <string.h>

#define LETTERS 40000
#define BUCKETS 256

struct word {
  struct word *next;
  unsigned count;
  size_t length;
  const char *letters;
};

static char text[LETTERS];
static struct word *buckets[BUCKETS];

static void add(const char *letters, size_t length) {
  unsigned hash = 5381;
  for (size_t place = 0; place < length; place++)
    hash = hash * 33 + (unsigned char)letters[place];
  struct word **at = &buckets[hash % BUCKETS];
  while (*at && ((*at)->length != length || memcmp((*at)->letters, letters, length) != 0))
    at = &(*at)->next;
  if (!*at) {
    *at = calloc(1, sizeof **at);
    if (!*at)
      exit(1);
    (*at)->length = length;
    (*at)->letters = letters;
  }
  (*at)->count++;
}

static void count(void) {
  size_t from = 0;
  for (size_t place = 0; place < LETTERS; place++)
    if (text[place] == ' ') {
      if (place > from)
        add(text + from, place - from);
      from = place + 1;
    }
}

int main(int argc, char **argv) {
  for (size_t place = 0; place < LETTERS; place++) {
    const unsigned letter = (unsigned)(draw() >> 30) % 7;
    text[place] = letter < 5 ? (char)('a' + letter) : ' ';
  }
  for (size_t round = 0, all = rounds(argc, argv); round < all; round++)
    count();
  for (size_t bucket = 0; bucket < BUCKETS; bucket++)
    for (const struct word *word = buckets[bucket]; word; word = word->next)
      printf("%.*s %u\n", (int)word->length, word->letters, word->count);
  return 0;
}
