/* Trap 11: fork while other threads launch, again and again; the children touch no CUDA and leave by _exit, by exec, and by an exit that
 * runs handlers. Locks that another thread held at the fork stay held in the child for good.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

enum { THREADS = 2, FORKS = 30 };

static struct job j;
static atomic_int stop;

static void *launch_all(void *unused) {
  CUstream stream;
  (void)unused;
  CK(j.d.set_current(j.context));
  CK(j.d.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  while (!atomic_load(&stop)) {
    for (int i = 0; i < 50; i++) CK(job_launch(&j, j.nothing, stream, NULL, NULL));
    CK(j.d.stream_synchronize(stream));
  }
  return NULL;
}

int main(void) {
  pthread_t threads[THREADS];
  int ways[3] = {0};
  job_begin(&j);
  for (int i = 0; i < THREADS; i++) EXPECT(pthread_create(&threads[i], NULL, launch_all, NULL) == 0);
  for (int i = 0; i < FORKS; i++) {
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      alarm(10);
      if (i % 3 == 0) _exit(0);
      if (i % 3 == 1) execl("/bin/true", "true", (char *)NULL);
      /* Handlers registered by others run too; quick_exit keeps the driver's own out of it, which are not made for this. */
      quick_exit(0);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    ways[i % 3] += WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  CK(job_add(&j, j.stream, 7));
  printf("children well: %d by _exit, %d by exec, %d by quick_exit\n", ways[0], ways[1], ways[2]);
  printf("parent: sum %d\n", job_sum(&j));
  job_end(&j);
  return 0;
}
