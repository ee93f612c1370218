/* The kernels' input: the same numbers at every run, and how much of it is asked. */
#pragma once

#include <stdint.h>
#include <stdlib.h>

static uint64_t drawn = 88172645463325252ULL;

/* xorshift64 (Marsaglia 2003) */
static inline uint64_t draw(void) {
  drawn ^= drawn << 13;
  drawn ^= drawn >> 7;
  return drawn ^= drawn << 17;
}

/* A kernel's one argument multiplies its work: 1 where none is given, at most 100,000. */
static inline size_t rounds(int count, char **arguments) {
  const long asked = count > 1 ? atol(arguments[1]) : 1;
  return asked < 1 ? 1 : asked > 100000 ? 100000 : (size_t)asked;
}
