/* Transactions in software: a checkpoint of registers and frame, and a log of what stores overwrite.
 *
 * Sound for programs without data races: a transaction ends at each call and atomic, so what it has
 * stored is nobody else's to read before it is committed. A signal handler that comes in the middle of
 * one takes the next slot. Whatever does not fit (a large frame, a full log) runs without a transaction,
 * and a difference stops the program. */
#include "runtime.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#define SLOTS 4
#define FRAME_BYTES_MAX 4096
#define ENTRIES_MAX 4096
#define ENTRY_BYTES 16

struct registers {
  uint64_t pushed[14]; /* as log.S does */
  void *resume;
  char *stack;
};
enum { RBP = 12 };

struct checkpoint {
  struct registers registers;
  char *frame_end;
  size_t entries; /* of the log when it began */
  int ready, tries;
  char frame[FRAME_BYTES_MAX];
};

struct entry {
  char *address;
  uint32_t bytes;
  char before[ENTRY_BYTES];
};

struct state {
  volatile int open; /* slots in use */
  volatile size_t entries;
  struct checkpoint slots[SLOTS];
  struct entry log[ENTRIES_MAX];
};

static _Thread_local struct state *mine;
static _Thread_local int ended; /* the thread's state is gone, or could not be had */
static pthread_key_t at_end;

_Noreturn void sparecraft_log_resume(struct registers *registers);

static void forget(void *state) {
  ended = 1;
  mine = NULL;
  munmap(state, sizeof(struct state));
}

__attribute__((constructor(101))) static void prepare(void) { pthread_key_create(&at_end, forget); }

static struct state *state_of_thread(void) {
  if (mine || ended)
    return mine;
  void *room = mmap(NULL, sizeof(struct state), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) {
    ended = 1;
    return NULL;
  }
  mine = room;
  pthread_setspecific(at_end, room);
  return mine;
}

/* Those of this frame are committed; those of frames that were left by longjmp are over. */
static void close_those_of(struct state *state, const char *stack, const char *frame_end) {
  while (state->open > 0) {
    const struct checkpoint *top = &state->slots[state->open - 1];
    if (top->registers.stack > stack && top->frame_end != frame_end)
      return;
    state->open--;
    state->entries = top->entries;
  }
  state->entries = 0;
}

void sparecraft_log_begun(struct registers *pushed) {
  struct state *state = state_of_thread();
  if (!state)
    return;
  char *stack = (char *)&pushed->resume + sizeof(void *);
  char *frame_end = (char *)pushed->pushed[RBP];
  close_those_of(state, stack, frame_end);
  const ptrdiff_t bytes = frame_end - stack;
  if (state->open == SLOTS || bytes < 0 || bytes > FRAME_BYTES_MAX)
    return;
  struct checkpoint *slot = &state->slots[state->open];
  slot->ready = 0;
  slot->registers.stack = stack; /* for a signal handler that comes now: this slot is not over */
  slot->frame_end = frame_end;
  __asm__ volatile("" ::: "memory");
  state->open++;
  __asm__ volatile("" ::: "memory");
  memcpy(slot->registers.pushed, pushed->pushed, sizeof pushed->pushed);
  slot->registers.resume = pushed->resume;
  slot->registers.stack = stack;
  slot->frame_end = frame_end;
  slot->entries = state->entries;
  slot->tries = 0;
  memcpy(slot->frame, stack, (size_t)bytes);
  __asm__ volatile("" ::: "memory");
  slot->ready = 1;
}

__attribute__((preserve_most)) void sparecraft_log_commit(void) {
  struct state *state = mine;
  if (!state || state->open == 0)
    return;
  const struct checkpoint *top = &state->slots[state->open - 1];
  if (top->frame_end != *(char **)__builtin_frame_address(0))
    return; /* the caller is a signal handler's, and what is open is not its own */
  state->open--;
  state->entries = top->entries;
}

static void keep(struct state *state, char *address, uint32_t bytes) {
  if (state->entries == ENTRIES_MAX) {
    state->slots[state->open - 1].ready = 0;
    return;
  }
  struct entry *entry = &state->log[state->entries];
  state->entries = state->entries + 1; /* first, as above */
  entry->address = address;
  entry->bytes = bytes;
  switch (bytes) {
  case 8: memcpy(entry->before, address, 8); break;
  case 4: memcpy(entry->before, address, 4); break;
  default: memcpy(entry->before, address, bytes);
  }
}

/* Called before a store. */
__attribute__((preserve_most)) void sparecraft_log_store(char *address, uint32_t bytes) {
  struct state *state = mine;
  if (!state)
    return;
  for (; state->open > 0 && bytes > 0; ) {
    const uint32_t piece = bytes < ENTRY_BYTES ? bytes : ENTRY_BYTES;
    keep(state, address, piece);
    address += piece;
    bytes -= piece;
  }
}

/* Does not return where a transaction of the frame is open and may be tried again. */
void sparecraft_log_differ(void *frame) {
  struct state *state = mine;
  if (!state || state->open == 0)
    return;
  struct checkpoint *top = &state->slots[state->open - 1];
  if (!top->ready || top->frame_end != frame || top->tries >= SPARECRAFT_TRIES)
    return;
  top->tries++;
  while (state->entries > top->entries) {
    state->entries = state->entries - 1;
    const struct entry *entry = &state->log[state->entries];
    memcpy(entry->address, entry->before, entry->bytes);
  }
  if (sparecraft_flip_corrected)
    sparecraft_flip_corrected();
  memcpy(top->registers.stack, top->frame, (size_t)(top->frame_end - top->registers.stack));
  sparecraft_log_resume(&top->registers);
}
