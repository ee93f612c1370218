/* Loaded before a service into which bits are flipped, so that each of its runs does the same: random
 * numbers begin alike, and the clock stands still from when the runner says so, the load's begin; what
 * time it is, where SPARECRAFT_CLOCK_S says that, from the beginning.
 * It is not hardened, and not struck. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define CLOCKS 16

struct shared { /* the second page of the runner's file, as experiments/kinds/bitflips/record.py has it */
  int64_t left;
  int64_t stands;
};

static const volatile struct shared *shared;
static struct timespec stood[CLOCKS];
static time_t told_s;

__attribute__((constructor)) static void find(void) {
  const char *told = getenv("SPARECRAFT_CLOCK_S");
  told_s = told ? atoll(told) : 0;
  const char *path = getenv("SPARECRAFT_FLIPS");
  const int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0)
    return;
  void *mapped = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, PAGE);
  close(file);
  if (mapped != MAP_FAILED)
    shared = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  if (told_s && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    *now = (struct timespec){.tv_sec = told_s};
    return 0;
  }
  if (!shared || !shared->stands || clock < 0 || clock >= CLOCKS)
    return (int)syscall(SYS_clock_gettime, clock, now);
  if (stood[clock].tv_sec == 0)
    syscall(SYS_clock_gettime, clock, &stood[clock]);
  *now = stood[clock];
  return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec found;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &found);
  now->tv_sec = found.tv_sec;
  now->tv_usec = found.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *now) {
  struct timespec found;
  clock_gettime(CLOCK_REALTIME, &found);
  if (now)
    *now = found.tv_sec;
  return found.tv_sec;
}

void srand(unsigned seed) {
  (void)seed;
  void (*real)(unsigned) = (void (*)(unsigned))dlsym(RTLD_NEXT, "srand");
  real(1);
}

void srandom(unsigned seed) {
  (void)seed;
  void (*real)(unsigned) = (void (*)(unsigned))dlsym(RTLD_NEXT, "srandom");
  real(1);
}

typedef FILE *opens(const char *, const char *);

static FILE *open_steady(const char *name, const char *path, const char *mode) {
  opens *real = (opens *)dlsym(RTLD_NEXT, name);
  return real(strcmp(path, "/dev/urandom") == 0 ? "/dev/zero" : path, mode);
}

FILE *fopen(const char *restrict path, const char *restrict mode) {
  return open_steady("fopen", path, mode);
}

FILE *fopen64(const char *restrict path, const char *restrict mode) {
  return open_steady("fopen64", path, mode);
}
