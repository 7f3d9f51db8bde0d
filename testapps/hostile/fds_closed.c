/* A daemon's beginnings, twice. Before CUDA, every descriptor is closed and the program's own files are opened on 0, 1 and 2. After
 * cuInit, every descriptor from 3 on is closed again and the program's own files are opened on the lowest numbers there are, so that they
 * get those that anybody else had. Nothing but the program may ever write to them, also not at exit.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include <fcntl.h>

#include "driver.h"

enum { FILES = 12, TOP = 256 };

static char folder[] = "/tmp/hostile-fds-XXXXXX";

static const char *path_of(int i) {
  static char path[64];
  snprintf(path, sizeof path, "%s/%d", folder, i);
  return path;
}

static int open_own(int i) {
  const int fd = open(path_of(i), O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || write(fd, "own content\n", 12) != 12) _exit(4);
  return fd;
}

static int child(void) {
  struct job j;
  struct driver d;
  for (int fd = 0; fd < TOP; fd++) close(fd);
  for (int i = 0; i < 3; i++) {
    if (open_own(i) != i) return 5;
  }
  d = driver_open();
  job_begin_with(&j, d);
  CK(job_add(&j, j.stream, 1));
  CK(j.d.stream_synchronize(j.stream));
  for (int fd = 3; fd < TOP; fd++) close(fd);
  for (int i = 3; i < FILES; i++) {
    if (open_own(i) != i) return 6;
  }
  for (int i = 0; i < 1000; i++) CK(job_add(&j, j.stream, 1));
  const int sum = job_sum(&j);
  job_end(&j);
  sleep_ms(200); /* time for a writer thread to do harm */
  return sum == 1001 ? 0 : 7;
}

int main(void) {
  int status, untouched = 0;
  EXPECT(mkdtemp(folder) != NULL);
  const pid_t pid = fork();
  EXPECT(pid >= 0);
  if (pid == 0) {
    alarm(10);
    exit(child());
  }
  EXPECT(waitpid(pid, &status, 0) == pid);
  print_wait_status("child", status);
  for (int i = 0; i < FILES; i++) {
    char content[64] = "";
    FILE *file = fopen(path_of(i), "r");
    const size_t n = file != NULL ? fread(content, 1, sizeof content - 1, file) : 0;
    if (file != NULL) fclose(file);
    if (n == 12 && strcmp(content, "own content\n") == 0) untouched++;
    else fprintf(stderr, "file %d holds %zu bytes: %.60s\n", i, n, content);
    unlink(path_of(i));
  }
  rmdir(folder);
  printf("untouched files: %d of %d\n", untouched, FILES);
  return 0;
}
