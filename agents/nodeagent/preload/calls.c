/* Library calls with bad parameters, or with an error of their own: loaded before the C library
 * into a role that asked for it (LD_PRELOAD), and told what to do by a file that all of the role's
 * processes map (SPARECRAFT_CALLS; `struct control`, written by the agent: `src/machine/calls.rs`).
 *
 * Without a fault a call costs one look at that file. What the C library calls within itself (stdio's
 * writes, for one) does not come by here, nor does a system call without the C library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

enum call { CALL_READ = 1, CALL_WRITE = 2, CALL_OPEN = 4, CALL_SEND = 8, CALL_RECV = 16, CALL_MALLOC = 32 };
enum harm { HARM_NULL = 1, HARM_POINTER = 2, HARM_LONGER = 3, HARM_SHORTER = 4, HARM_ERROR = 5 };

struct control {
  uint32_t calls; /* which of them are altered; 0 where there is no fault */
  uint32_t harm;
  uint32_t error;
  uint32_t unused;
  uint64_t threshold; /* a number drawn below it is a hit */
  uint64_t seed;
  _Atomic uint64_t seen;
  _Atomic uint64_t hit;
};

static struct control *control;

__attribute__((constructor)) static void begin(void) {
  const char *name = getenv("SPARECRAFT_CALLS");
  int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) control = mapped;
}

/* Steele and others' SplitMix64 (2014), as in the agent's `store/io_faults.rs`. */
static uint64_t drawn(uint64_t seed, uint64_t number) {
  uint64_t bits = seed + (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
  bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
  return bits ^ (bits >> 31);
}

/* What becomes of this call: 0, or one of `enum harm`. */
static uint32_t harm_of(enum call call) {
  struct control *told = control;
  if (!told || !(*(volatile uint32_t *)&told->calls & call)) return 0;
  uint64_t number = atomic_fetch_add(&told->seen, 1);
  if (drawn(told->seed, number) >= told->threshold) return 0;
  atomic_fetch_add(&told->hit, 1);
  return told->harm;
}

#define NEXT(name) \
  static __typeof__(name) *next; \
  if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* Alters pointer and size as told; the caller has returned where the harm is an error. */
static void alter(uint32_t harm, void **pointer, size_t *size) {
  switch (harm) {
  case HARM_NULL: *pointer = NULL; break;
  case HARM_POINTER: *pointer = (char *)*pointer + 1; break;
  case HARM_LONGER: *size += 1; break;
  case HARM_SHORTER: *size -= *size > 0; break;
  default: break;
  }
}

#define ALTERED(call, pointer, size) \
  do { \
    uint32_t harm = harm_of(call); \
    if (harm == HARM_ERROR) { \
      errno = (int)control->error; \
      return -1; \
    } \
    alter(harm, &(pointer), &(size)); \
  } while (0)

ssize_t read(int file, void *buffer, size_t size) {
  NEXT(read);
  ALTERED(CALL_READ, buffer, size);
  return next(file, buffer, size);
}

ssize_t write(int file, const void *buffer, size_t size) {
  NEXT(write);
  void *from = (void *)buffer;
  ALTERED(CALL_WRITE, from, size);
  return next(file, from, size);
}

#define READ_AT(name) \
  ssize_t name(int file, void *buffer, size_t size, off_t at) { \
    NEXT(name); \
    ALTERED(CALL_READ, buffer, size); \
    return next(file, buffer, size, at); \
  }
READ_AT(pread)
READ_AT(pread64)

#define WRITE_AT(name) \
  ssize_t name(int file, const void *buffer, size_t size, off_t at) { \
    NEXT(name); \
    void *from = (void *)buffer; \
    ALTERED(CALL_WRITE, from, size); \
    return next(file, from, size, at); \
  }
WRITE_AT(pwrite)
WRITE_AT(pwrite64)

ssize_t send(int file, const void *buffer, size_t size, int flags) {
  NEXT(send);
  void *from = (void *)buffer;
  ALTERED(CALL_SEND, from, size);
  return next(file, from, size, flags);
}

ssize_t recv(int file, void *buffer, size_t size, int flags) {
  NEXT(recv);
  ALTERED(CALL_RECV, buffer, size);
  return next(file, buffer, size, flags);
}

#define OPENED(name) \
  int name(const char *path, int flags, ...) { \
    NEXT(name); \
    mode_t mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { \
      va_list rest; \
      va_start(rest, flags); \
      mode = va_arg(rest, mode_t); \
      va_end(rest); \
    } \
    void *of = (void *)path; \
    size_t none = 0; \
    ALTERED(CALL_OPEN, of, none); \
    return next(of, flags, mode); \
  }
OPENED(open)
OPENED(open64)

/* While the next `malloc` is looked for, the search itself may want memory: it gets some that is
 * never given back. */
static char first[1 << 16];
static size_t first_used;
static __thread int searching;

static void *from_first(size_t size) {
  size = (size + 15) & ~(size_t)15;
  if (size > sizeof first - first_used) return NULL;
  first_used += size;
  return first + first_used - size;
}

static int is_first(const void *pointer) {
  return (const char *)pointer >= first && (const char *)pointer < first + sizeof first;
}

#define NEXT_MEMORY(name, size) \
  static __typeof__(name) *next; \
  if (!next) { \
    if (searching) return from_first(size); \
    searching = 1; \
    next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name); \
    searching = 0; \
  }

/* An allocation has no pointer to alter: with `null` it gives none. */
#define ALTERED_MEMORY(size) \
  do { \
    uint32_t harm = harm_of(CALL_MALLOC); \
    void *none = NULL; \
    if (harm == HARM_ERROR || harm == HARM_NULL) { \
      errno = harm == HARM_ERROR ? (int)control->error : ENOMEM; \
      return NULL; \
    } \
    alter(harm, &none, &(size)); \
  } while (0)

void *malloc(size_t size) {
  NEXT_MEMORY(malloc, size)
  ALTERED_MEMORY(size);
  return next(size);
}

void *calloc(size_t count, size_t size) {
  NEXT_MEMORY(calloc, count * size)
  ALTERED_MEMORY(size);
  return next(count, size);
}

void *realloc(void *pointer, size_t size) {
  NEXT_MEMORY(realloc, size)
  if (is_first(pointer)) {
    void *moved = malloc(size);
    size_t most = (size_t)(first + sizeof first - (char *)pointer);
    if (moved) memcpy(moved, pointer, size < most ? size : most);
    return moved;
  }
  ALTERED_MEMORY(size);
  return next(pointer, size);
}

void free(void *pointer) {
  NEXT(free);
  if (!is_first(pointer)) next(pointer);
}
