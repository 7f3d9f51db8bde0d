/* Trap 6: a program with its own malloc, which looks the real one up by dlsym on its first use, and uses malloc for every look-up of the
 * driver. A look-up that allocates would come back to itself here.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

static void *(*real_malloc)(size_t);
static _Thread_local int depth;
static int deepest;
static char early[1 << 16];
static size_t early_used;

void *malloc(size_t size) {
  if (real_malloc == NULL) {
    if (depth > 0) {
      /* Inside our own look-up: serve from a static buffer, as interposers do, and notice. */
      if (depth > deepest) deepest = depth;
      void *p = early + early_used;
      early_used += (size + 15) / 16 * 16;
      return early_used <= sizeof early ? p : NULL;
    }
    depth++;
    real_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    depth--;
  }
  return real_malloc(size);
}

int main(void) {
  struct job j;
  job_begin(&j);
  for (int i = 1; i <= 10; i++) CK(job_add(&j, j.stream, i));
  printf("sum %d\n", job_sum(&j));
  printf("allocations inside the look-up of malloc: %s\n", deepest == 0 ? "none" : "some");
  job_end(&j);
  return 0;
}
