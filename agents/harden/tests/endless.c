/* Ends only if nothing disturbs the count: most flipped bits of it make a loop that does not end. */
#include <stdint.h>
#include <stdio.h>

static volatile uint64_t seen;

int main(void) {
#pragma clang loop unroll(disable)
  for (uint64_t at = 0; at != 3000; at++)
    seen = at;
  printf("%llu\n", (unsigned long long)seen);
  return 0;
}
