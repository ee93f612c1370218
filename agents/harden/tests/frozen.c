/* Whether both of two are there is asked once and used thrice: clang freezes what it may compute too early. */
#include <stdio.h>

struct request {
  const struct request *above;
  const char *name;
  int slashes;
};

__attribute__((noinline)) static int flags_of(const struct request *r) {
  const int is_file = r->above && r->name;
  int flags = r->slashes ? 8 : 0;
  if (is_file)
    flags |= 1;
  if (r->slashes > 3)
    printf("%s has %d\n", r->name ? r->name : "it", r->slashes);
  if (!is_file)
    printf("no file, %d\n", flags);
  return is_file ? flags : -flags;
}

int main(void) {
  static struct request requests[64];
  long sum = 0;
  for (int n = 0; n < 64; n++)
    requests[n] = (struct request){n % 3 ? requests : NULL, n % 5 ? "name" : NULL, n % 7};
  for (int n = 0; n < 64; n++)
    sum += flags_of(requests + n);
  printf("%ld\n", sum);
  return 0;
}
