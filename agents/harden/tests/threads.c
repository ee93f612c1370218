/* Four threads add under a lock and with atomics; the sums tell of a lost update. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 4, TIMES = 20000 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long locked, cells[64];
static atomic_long counted;

static void *add(void *given) {
  const long own = (long)given;
  for (long time = 0; time < TIMES; time++) {
    pthread_mutex_lock(&lock);
    locked += own + time % 3;
    cells[time % 64] += locked & 1;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&counted, own);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[THREADS];
  for (long own = 0; own < THREADS; own++)
    if (pthread_create(&threads[own], NULL, add, (void *)own) != 0)
      return 1;
  for (int own = 0; own < THREADS; own++)
    pthread_join(threads[own], NULL);
  printf("%ld %ld\n", locked, counted);
  return 0;
}
