/* Hardware transactions: whether they are there, and what an abort means. */
#include "runtime.h"

#include <cpuid.h>
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIFFERENCE 0xd1
#define TRIALS 100

unsigned char sparecraft_tx_engine; /* 1: RTM; 0: none, and a difference stops the program */
_Thread_local int sparecraft_tx_tries;

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

/* Whether a transaction is tried again; else the code runs without one, and a difference stops it. */
int sparecraft_tx_aborted(unsigned status) {
  const int differed = (status & _XABORT_EXPLICIT) && _XABORT_CODE(status) == DIFFERENCE;
  if (differed && sparecraft_flip_spent)
    sparecraft_flip_spent();
  if (differed && sparecraft_flip_corrected)
    sparecraft_flip_corrected();
  const int may_pass = differed || (status & _XABORT_RETRY);
  return may_pass && ++sparecraft_tx_tries <= SPARECRAFT_TRIES;
}

/* Does not return where a transaction is open. */
__attribute__((target("rtm"))) void sparecraft_tx_differ(void) {
  if (sparecraft_tx_engine && _xtest())
    _xabort(DIFFERENCE);
}
