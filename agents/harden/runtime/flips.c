/* Where and how one result of a program is flipped, by a file that its runner maps too.
 *
 * Without the file (SPARECRAFT_FLIPS) nothing is flipped. With `at` < 0 results are only counted. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
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

int64_t sparecraft_flip_left = INT64_MAX;
uint64_t sparecraft_flip_high;
static struct record *record;

static void limit(int what, uint64_t most) {
  const struct rlimit limits = {most, most};
  setrlimit(what, &limits);
}

__attribute__((constructor(102))) static void arm(void) {
  const char *path = getenv("SPARECRAFT_FLIPS");
  const int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0)
    return;
  void *mapped = mmap(NULL, sizeof *record, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED)
    return;
  record = mapped;
  if (record->cpu_s)
    limit(RLIMIT_CPU, record->cpu_s);
  if (record->memory_bytes)
    limit(RLIMIT_AS, record->memory_bytes);
  if (record->output_bytes)
    limit(RLIMIT_FSIZE, record->output_bytes);
  const struct rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  sparecraft_flip_left = record->at < 0 ? INT64_MAX : record->at;
}

__attribute__((destructor(102))) static void tell(void) {
  if (record && record->at < 0)
    record->counted = INT64_MAX - sparecraft_flip_left;
}

void sparecraft_flip_spent(void) { sparecraft_flip_left = INT64_MAX; }

void sparecraft_flip_corrected(void) {
  if (record)
    record->corrected++;
}

/* The mask of the one site of a block that is flipped; two bits if the record says so. */
uint64_t sparecraft_flip_fire(const struct site *sites, int64_t place) {
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
  return mask[0];
}
