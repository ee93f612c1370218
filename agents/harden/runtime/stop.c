/* What happens where both streams differ: an open transaction is tried again, else the program stops. */
#include "runtime.h"

#include <string.h>
#include <unistd.h>

__attribute__((weak)) void sparecraft_tx_differ(void);
__attribute__((weak)) void sparecraft_log_differ(void *frame);

static void say(const char *text) {
  ssize_t written = write(STDERR_FILENO, text, strlen(text));
  (void)written;
}

_Noreturn void sparecraft_differ(const char *function) {
  if (sparecraft_tx_differ)
    sparecraft_tx_differ();
  if (sparecraft_log_differ)
    sparecraft_log_differ(*(void **)__builtin_frame_address(0));
  say("sparecraft: a transient fault: both streams differ in ");
  say(function);
  say(": stopped\n");
  _exit(SPARECRAFT_STOPPED);
}
