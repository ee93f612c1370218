/* Where and how one result of a program is flipped, by a file that its runner maps too.
 *
 * Without the file (SPARECRAFT_FLIPS) nothing is flipped. With `at` < 0 results are only counted.
 * Where the file has a second page, that page is the count of results that are left: the runner of a
 * service sets it when the load begins, and reads it while the service runs. */
#include "runtime.h"

#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct site { /* as flips.cpp describes them */
  const char *function, *opcode;
  uint32_t line;
  uint16_t bits, kind;
};

struct record { /* as experiments/kinds/bitflips/record.py reads it */
  /* asked */
  int64_t at;
  uint64_t draw;
  uint32_t flips, cpu_s;
  uint64_t memory_bytes, output_bytes;
  /* told */
  int64_t counted;
  uint32_t fired, corrected, bit, line, stream, bits;
  char function[64], opcode[24];
};

#define PAGE 4096
struct {
  int64_t results;
  char rest[PAGE - sizeof(int64_t)]; /* of a page of its own, which the file's can take the place of */
} sparecraft_flip_left __attribute__((aligned(PAGE))) = {INT64_MAX, {0}};
uint64_t sparecraft_flip_high;
static struct record *record;
static int shared;

static void limit(int what, uint64_t most) {
  const struct rlimit limits = {most, most};
  setrlimit(what, &limits);
}

static int has_second_page(int file) {
  struct stat found;
  return fstat(file, &found) == 0 && found.st_size >= 2 * PAGE;
}

/* Whether the runner counts: the second page of the file is the program's counter from now on. */
static int share_counter(int file) {
  return has_second_page(file) &&
         mmap(&sparecraft_flip_left, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
              PAGE) != MAP_FAILED;
}

static void limit_all(void) {
  if (record->cpu_s)
    limit(RLIMIT_CPU, record->cpu_s);
  if (record->memory_bytes)
    limit(RLIMIT_AS, record->memory_bytes);
  if (record->output_bytes)
    limit(RLIMIT_FSIZE, record->output_bytes);
  limit(RLIMIT_CORE, 0);
}

__attribute__((constructor(102))) static void arm(void) {
  const char *path = getenv("SPARECRAFT_FLIPS");
  const int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0)
    return;
  void *mapped = mmap(NULL, sizeof *record, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  shared = mapped != MAP_FAILED && share_counter(file);
  close(file);
  if (mapped == MAP_FAILED)
    return;
  record = mapped;
  limit_all();
  if (!shared)
    sparecraft_flip_left.results = record->at < 0 ? INT64_MAX : record->at;
}

__attribute__((destructor(102))) static void tell(void) {
  if (record && record->at < 0 && !shared)
    record->counted = INT64_MAX - sparecraft_flip_left.results;
}

void sparecraft_flip_spent(void) { sparecraft_flip_left.results = INT64_MAX; }

void sparecraft_flip_corrected(void) {
  if (record)
    record->corrected++;
}

/* What an abort undoes is told outside: a hardware transaction is committed here, and the rest of it is one
   of its own, from which an abort comes back with nothing flipped, as the fault is gone the second time. */
__attribute__((target("rtm"))) static int leave_transaction(void) {
  if (!&sparecraft_tx_engine || !sparecraft_tx_engine || !_xtest())
    return 0;
  _xend();
  return 1;
}

__attribute__((target("rtm"))) static uint64_t flip_in_transaction(uint64_t mask) {
  if (_xbegin() == _XBEGIN_STARTED)
    return mask;
  sparecraft_flip_corrected();
  sparecraft_flip_high = 0;
  return 0;
}

/* The mask of the one site of a block that is flipped; two bits if the record says so. */
uint64_t sparecraft_flip_fire(const struct site *sites, int64_t place) {
  const int in_transaction = leave_transaction();
  sparecraft_flip_spent();
  const struct site *site = &sites[place];
  uint64_t mask[2] = {0, 0};
  const uint32_t width = site->bits < 128 ? site->bits : 128;
  const uint32_t first = (uint32_t)(record->draw % width);
  mask[first / 64] = 1ULL << first % 64;
  if (record->flips > 1 && width > 1) {
    const uint32_t second = (first + 1 + (uint32_t)((record->draw >> 32) % (width - 1))) % width;
    mask[second / 64] ^= 1ULL << second % 64;
  }
  record->bit = first;
  record->bits = width;
  record->line = site->line;
  record->stream = site->kind >> 8;
  strncpy(record->function, site->function, sizeof record->function - 1);
  strncpy(record->opcode, site->opcode, sizeof record->opcode - 1);
  record->fired = 1;
  sparecraft_flip_high = mask[1];
  return in_transaction ? flip_in_transaction(mask[0]) : mask[0];
}
