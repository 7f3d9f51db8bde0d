/* Trap 8: a process without CUDA does not notice. dlsym finds no driver function where there is no driver, a weak reference to one does no
 * harm, and there is no further thread, descriptor or mapping of a CUDA library.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include <dirent.h>
#include <fcntl.h>

#include "driver.h"

extern CUresult cuInit(unsigned int flags) __attribute__((weak));

static int entries(const char *folder) {
  int n = 0;
  DIR *d = opendir(folder);
  EXPECT(d != NULL);
  for (struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
  closedir(d);
  return n;
}

static int mapped(const char *name) {
  char line[4096];
  int found = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  EXPECT(maps != NULL);
  while (fgets(line, sizeof line, maps) != NULL) found |= strstr(line, name) != NULL;
  fclose(maps);
  return found;
}

int main(int argc, char **argv) {
  if (argc == 1) {
    /* Once more without whatever the parent left open, so that any descriptor found was opened in this process. */
    for (int fd = 3; fd < 1024; fd++) close(fd);
    execl("/proc/self/exe", argv[0], "again", (char *)NULL);
    return 5;
  }
  printf("threads: %d\n", entries("/proc/self/task"));
  int open_files = 0;
  for (int fd = 3; fd < 1024; fd++) open_files += fcntl(fd, F_GETFD) != -1;
  printf("files open beyond the standard ones: %d\n", open_files);
  printf("dlsym(RTLD_DEFAULT, cuInit): %s\n", dlsym(RTLD_DEFAULT, "cuInit") == NULL ? "null" : "not null");
  printf("dlsym(RTLD_DEFAULT, cuGetProcAddress_v2): %s\n", dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2") == NULL ? "null" : "not null");
  printf("dlsym(program, cuLaunchKernel): %s\n", dlsym(dlopen(NULL, RTLD_NOW), "cuLaunchKernel") == NULL ? "null" : "not null");
  /* Null, or a function that says that there is no driver; never a success and never a crash. */
  printf("weak cuInit: %s\n", cuInit == NULL || cuInit(0) != CUDA_SUCCESS ? "harmless" : "claims success");
  printf("libcuda mapped: %d\n", mapped("libcuda.so"));
  printf("threads: %d\n", entries("/proc/self/task"));
  return 0;
}
