/* Inline assembly: with results, with memory, that jumps, and with flags. */
#include <stdint.h>
#include <stdio.h>

static uint32_t rotated(uint32_t value, int by) {
  __asm__("roll %%cl, %0" : "+r"(value) : "c"(by) : "cc");
  return value;
}

static uint64_t product(uint64_t one, uint64_t other, uint64_t *high) {
  uint64_t low;
  __asm__("mulq %3" : "=a"(low), "=d"(*high) : "a"(one), "rm"(other) : "cc");
  return low;
}

static void increased(uint32_t *place) {
  __asm__ volatile("incl %0" : "+m"(*place) : : "cc", "memory");
}

static int is_negative(int value) {
  __asm__ goto("testl %0, %0; js %l1" : : "r"(value) : "cc" : negative);
  return 0;
negative:
  return 1;
}

int main(void) {
  uint64_t high = 0, sum = 0;
  uint32_t place = 7;
  for (int time = -20; time < 20; time++) {
    sum += product((uint64_t)time, rotated((uint32_t)time, 5), &high) ^ high;
    increased(&place);
    sum += (uint64_t)is_negative(time) * place;
  }
  printf("%llx %u\n", (unsigned long long)sum, place);
  return 0;
}
