/* Hardware transactions: whether they are there, what an abort means, and how many there were. */
#include "runtime.h"

#include <cpuid.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIFFERENCE 0xd1
#define TRIALS 100

unsigned char sparecraft_tx_engine; /* 1: RTM; 0: none, and a difference stops the program */
_Thread_local int sparecraft_tx_tries;

/* Of threads that were aborted once; those that never were share the first, and may lose some. */
#define COUNTED_THREADS 64
static struct counts {
  uint64_t begun; /* rtm.S: the first field */
  uint64_t difference, conflict, capacity, other;
} __attribute__((aligned(64))) counts[COUNTED_THREADS];
static atomic_int counted_threads = 1;
_Thread_local struct counts *sparecraft_tx_counts = &counts[0];

static int is_told_of(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
    return 0;
  const int always_aborts = d >> 11 & 1; /* RTM_ALWAYS_ABORT: microcode switched it off */
  return (b >> 11 & 1) && !always_aborts;
}

__attribute__((target("rtm"))) static int commits(void) {
  for (int trial = 0; trial < TRIALS; trial++)
    if (_xbegin() == _XBEGIN_STARTED) {
      _xend();
      return 1;
    }
  return 0;
}

__attribute__((constructor(101))) static void find_engine(void) {
  const char *asked = getenv("SPARECRAFT_TX");
  if (asked && strcmp(asked, "none") == 0)
    return;
  if (is_told_of() && commits()) {
    sparecraft_tx_engine = 1;
    return;
  }
  static const char said[] = "sparecraft: this CPU has no hardware transactions (RTM): a difference "
                             "stops the program, as without them (ft_ilr)\n";
  ssize_t written = write(STDERR_FILENO, said, sizeof said - 1);
  (void)written;
}

static void count_abort(unsigned status, int differed) {
  if (sparecraft_tx_counts == &counts[0] && atomic_load(&counted_threads) < COUNTED_THREADS) {
    const int mine = atomic_fetch_add(&counted_threads, 1);
    if (mine < COUNTED_THREADS)
      sparecraft_tx_counts = &counts[mine];
  }
  struct counts *into = sparecraft_tx_counts;
  if (differed)
    into->difference++;
  else if (status & _XABORT_CAPACITY)
    into->capacity++;
  else if (status & _XABORT_CONFLICT)
    into->conflict++;
  else
    into->other++; /* an interrupt, a page that is not there, an instruction that is not allowed */
}

/* Adds a line to the file that SPARECRAFT_TX_COUNTS names. */
__attribute__((destructor(101))) static void tell_counts(void) {
  const char *path = getenv("SPARECRAFT_TX_COUNTS");
  const int file = path && sparecraft_tx_engine
                       ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)
                       : -1;
  if (file < 0)
    return;
  struct counts all = {0};
  for (const struct counts *one = counts; one < counts + COUNTED_THREADS; one++) {
    all.begun += one->begun;
    all.difference += one->difference;
    all.conflict += one->conflict;
    all.capacity += one->capacity;
    all.other += one->other;
  }
  dprintf(file,
          "{\"begun\": %lu, \"difference\": %lu, \"conflict\": %lu, \"capacity\": %lu, "
          "\"other\": %lu}\n",
          all.begun, all.difference, all.conflict, all.capacity, all.other);
  close(file);
}

/* Whether a transaction is tried again; else the code runs without one, and a difference stops it. */
int sparecraft_tx_aborted(unsigned status) {
  const int differed = (status & _XABORT_EXPLICIT) && _XABORT_CODE(status) == DIFFERENCE;
  count_abort(status, differed);
  const int may_pass = differed || (status & _XABORT_RETRY);
  return may_pass && ++sparecraft_tx_tries <= SPARECRAFT_TRIES;
}

/* Does not return where a transaction is open. */
__attribute__((target("rtm"))) void sparecraft_tx_differ(void) {
  if (sparecraft_tx_engine && _xtest())
    _xabort(DIFFERENCE);
}
