/* Little address space: 256 MiB more than the process had before CUDA, and 8 MiB more than it had after. What cannot be had has to be
 * done without.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include <sys/resource.h>

#include "driver.h"

static rlim_t in_use(void) {
  unsigned long pages = 0;
  FILE *statm = fopen("/proc/self/statm", "r");
  EXPECT(statm != NULL && fscanf(statm, "%lu", &pages) == 1);
  fclose(statm);
  return pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void limit_to(rlim_t bytes) {
  struct rlimit limit;
  EXPECT(getrlimit(RLIMIT_AS, &limit) == 0);
  limit.rlim_cur = bytes;
  EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
}

static struct job j;

static void *launch(void *unused) {
  (void)unused;
  CK(j.d.set_current(j.context));
  CK(job_add(&j, j.stream, 1));
  return NULL;
}

int main(void) {
  pthread_attr_t small;
  EXPECT(pthread_attr_init(&small) == 0);
  EXPECT(pthread_attr_setstacksize(&small, 128 * 1024) == 0);
  limit_to(in_use() + (256u << 20));
  job_begin(&j);
  CK(job_add(&j, j.stream, 1));
  CK(j.d.stream_synchronize(j.stream));
  limit_to(in_use() + (8u << 20));
  for (int i = 0; i < 100; i++) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, &small, launch, NULL) == 0);
    pthread_join(thread, NULL);
  }
  printf("sum %d\n", job_sum(&j));
  return 0;
}
