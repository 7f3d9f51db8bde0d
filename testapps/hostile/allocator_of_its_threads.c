/* An allocator that knows the program's threads and no others: it counts what threads of the guard ask it for, and what is asked once the exit handlers of the
 * program have run.
 *
 * bare and guarded: prints the same lines, exit 0; exit 9 where something is asked for at the very end. */
#include <sys/prctl.h>

#include "driver.h"

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
static atomic_int strangers, is_over;

static void see(void) {
  char name[17] = "";
  if (prctl(PR_GET_NAME, name) == 0 && strncmp(name, "lazyguard-", 10) == 0) atomic_fetch_add(&strangers, 1);
  if (atomic_load(&is_over)) _exit(9);
}

void *malloc(size_t size) { see(); return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { see(); return __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { see(); return __libc_realloc(old, size); }
void *memalign(size_t align, size_t size) { see(); return __libc_memalign(align, size); }
void *aligned_alloc(size_t align, size_t size) { see(); return __libc_memalign(align, size); }
int posix_memalign(void **to, size_t align, size_t size) { see(); return (*to = __libc_memalign(align, size)) == NULL; }
void free(void *old) {
  /* The C library and the driver give back at their own ends. */
  char name[17] = "";
  if (prctl(PR_GET_NAME, name) == 0 && strncmp(name, "lazyguard-", 10) == 0) atomic_fetch_add(&strangers, 1);
  __libc_free(old);
}

static void *works(void *job) {
  const struct job *j = job;
  CK(j->d.set_current(j->context));
  for (int i = 1; i <= 10; i++) CK(job_add(j, j->stream, 1));
  return NULL;
}

static void over(void) { atomic_store(&is_over, 1); }

int main(void) {
  struct job j;
  atexit(over);
  job_begin(&j);
  for (int i = 0; i < 20; i++) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, works, &j) == 0);
    pthread_join(thread, NULL);
    sleep_ms(20);
  }
  printf("sum %d\n", job_sum(&j));
  printf("asked for by threads of others: %d\n", atomic_load(&strangers));
  fflush(stdout);
  return 0;
}
