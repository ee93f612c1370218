/* Where a string is put into a local is computed of its address and constants alone: struck, its text
   lies elsewhere. */
#include <stdio.h>
#include <string.h>

static _Thread_local long said; /* its address is an intrinsic's that wants a constant */

__attribute__((noinline)) static int put(char *to, long number) {
  return sprintf(to, "%ld", number);
}

__attribute__((noinline)) static void say(long number) {
  char text[4096];
  memset(text, '.', sizeof text);
  text[0] = '<';
  const int length = put(text + 1, number);
  text[length + 1] = '>';
  text[length + 2] = 0;
  puts(text);
  said += length;
}

int main(void) {
  for (long number = 1; number < 400; number += 7)
    say(number * number);
  printf("%ld\n", said);
  return 0;
}
