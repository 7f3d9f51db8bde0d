/* An allocator with a lock, as every program's may be, and a signal whose handler calls exit while realloc has it. Whoever allocates, gives back or waits
 * for that lock at the exit waits for ever.
 *
 *   exit_in_allocator [cuda]
 *
 * bare and guarded: prints the same line, exit 5. */
#include <signal.h>

#include "driver.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char arena[256 << 20] __attribute__((aligned(4096)));
static size_t used;
static int interrupt;

static void *take(size_t align, size_t size) {
  pthread_mutex_lock(&lock);
  size_t at = (used + 16 + align - 1) & ~(align - 1);
  used = at + size;
  if (interrupt) raise(SIGALRM);
  pthread_mutex_unlock(&lock);
  if (used > sizeof arena) return NULL;
  ((size_t *)(arena + at))[-1] = size;
  return arena + at;
}

void *malloc(size_t size) { return take(16, size); }
void *calloc(size_t count, size_t size) { return take(16, count * size); }
void *memalign(size_t align, size_t size) { return take(align < 16 ? 16 : align, size); }
void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }
int posix_memalign(void **to, size_t align, size_t size) { return (*to = memalign(align, size)) == NULL; }
void *realloc(void *old, size_t size) {
  void *fresh = take(16, size);
  const size_t had = old != NULL ? ((size_t *)old)[-1] : 0;
  if (fresh != NULL && old != NULL) memcpy(fresh, old, had < size ? had : size);
  return fresh;
}
void free(void *old) { (void)old; }

static void ends(int signal) {
  (void)signal;
  exit(5);
}

static void *waits(void *unused) {
  for (;;) pause();
  return unused;
}

int main(int argc, char **argv) {
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, waits, NULL) == 0);
  signal(SIGALRM, ends);
  printf("sum %d\n", argc > 1 && strcmp(argv[1], "cuda") == 0 ? job_whole() : 0);
  fflush(stdout);
  char *text = malloc(100);
  interrupt = 1;
  text = realloc(text, 200);
  return text == NULL;
}
