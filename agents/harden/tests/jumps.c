/* setjmp, longjmp out of nested calls and out of a signal handler, and a deep recursion of tail calls. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

static jmp_buf here;
static sigjmp_buf outside;
static int levels[16];

__attribute__((noinline)) static void dive(int level) {
  levels[level & 15] += level;
  if (level == 40)
    longjmp(here, level);
  dive(level + 1);
  levels[level & 15]--;
}

static void leave(int number) { siglongjmp(outside, number); }

__attribute__((noinline)) static int odd(unsigned value);
__attribute__((noinline)) static int even(unsigned value) {
  return value == 0 ? 1 : odd(value - 1);
}
static int odd(unsigned value) { return value == 0 ? 0 : even(value - 1); }

int main(void) {
  int sum = 0;
  for (volatile int time = 0; time < 50; time++) {
    const int came = setjmp(here);
    if (came == 0)
      dive(time % 7);
    levels[0] += came;
  }
  signal(SIGUSR1, leave);
  for (volatile int time = 0; time < 50; time++)
    if (sigsetjmp(outside, 1) == 0)
      raise(SIGUSR1);
    else
      levels[1] += 3;
  for (int level = 0; level < 16; level++)
    sum = sum * 31 + levels[level];
  printf("%d %d\n", sum, even(1000000));
  return 0;
}
