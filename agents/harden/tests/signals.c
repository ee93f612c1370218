/* A timer's handler that computes and stores comes in the middle of loops that do so too. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks;
static unsigned long handled[128], table[1024];

static void tick(int number) {
  for (int place = 0; place < 128; place++)
    handled[place] = handled[place] * 31 + (unsigned long)(place ^ number);
  ticks++;
}

static unsigned long work(unsigned long sum) {
  for (int place = 0; place < 1024; place++) {
    table[place] = table[place] * 6364136223846793005UL + sum;
    sum ^= table[place] >> 7;
  }
  return sum;
}

int main(void) {
  struct sigaction action = {.sa_handler = tick};
  const struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
  unsigned long sum = 1;
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &every, NULL);
  int times = 0;
  for (; times < 2000 || (ticks < 20 && times < 100000000); times++)
    if (times < 2000)
      sum = work(sum);
    else
      (void)work(0);
  setitimer(ITIMER_REAL, &never, NULL);
  printf("%lx %d\n", sum, ticks >= 20);
  return 0;
}
