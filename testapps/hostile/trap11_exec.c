/* Trap 11: vfork and exec, posix_spawn, and exec of itself over a process that uses CUDA. The new images inherit the preloading and
 * nothing else.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include <spawn.h>

#include "driver.h"

extern char **environ;

static int work(const char *who, int last) {
  struct job j;
  job_begin(&j);
  for (int i = 1; i <= last; i++) CK(job_add(&j, j.stream, i));
  printf("%s: sum %d\n", who, job_sum(&j));
  return 0;
}

int main(int argc, char **argv) {
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  EXPECT(n > 0);
  self[n] = '\0';
  setvbuf(stdout, NULL, _IOLBF, 0); /* the processes share one output, in the order of events */
  if (argc > 1) return work(argv[1], atoi(argv[2]));

  work("first image", 3);
  pid_t child = vfork();
  if (child == 0) {
    execl(self, self, "child of vfork", "4", (char *)NULL);
    _exit(5);
  }
  int status;
  EXPECT(waitpid(child, &status, 0) == child);
  print_wait_status("child of vfork", status);

  char *spawned[] = {self, "spawned child", "5", NULL};
  EXPECT(posix_spawn(&child, self, NULL, NULL, spawned, environ) == 0);
  EXPECT(waitpid(child, &status, 0) == child);
  print_wait_status("spawned child", status);

  child = vfork();
  if (child == 0) {
    execl("/bin/true", "true", (char *)NULL);
    _exit(5);
  }
  EXPECT(waitpid(child, &status, 0) == child);
  print_wait_status("true", status);
  execl(self, self, "second image", "6", (char *)NULL);
  return 5;
}
