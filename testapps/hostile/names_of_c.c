/* A program without CUDA has functions and variables of names that ISO C leaves to programs. The C library has others of these names.
 *
 * bare and guarded: prints the same lines, exit 0.
 * build: -fno-builtin -w */
#include <stdio.h>
#include <stdlib.h>

struct { double temperature, pressure; } environ = {21.5, 1013};
static int calls;
long syscall(long number) { return ++calls; }
int open(const char *what) { return ++calls; }
int read(int a) { return ++calls; }
int close(int a) { return ++calls; }
int kill(int a) { return ++calls; }
int poll(int a) { return ++calls; }
int clock_gettime(int a) { return ++calls; }
int prctl(int a) { return ++calls; }
int fcntl(int a) { return ++calls; }
int dl_iterate_phdr(int a) { return ++calls; }
int dladdr1(int a) { return ++calls; }
int getauxval(int a) { return ++calls; }
int sysconf(int a) { return ++calls; }
int pthread_setcancelstate(int a) { return ++calls; }
int pthread_setcanceltype(int a) { return ++calls; }
int pthread_create(int a) { return ++calls; }
int sigaltstack(int a) { return ++calls; }
int getpid(void) { return ++calls; }
int mprotect(int a) { return ++calls; }
char *dlvsym(int a) { calls++; return "dlvsym"; }
int pipe = 3, stat = 4, wait = 5, access = 6;

int main(void) {
  printf("calls before main: %d\n", calls);
  printf("%g %g %d %d %d %d\n", environ.temperature, environ.pressure, pipe, stat, wait, access);
  printf("%ld", syscall(1));
  printf(" %d", open(""));
  printf(" %d", getpid());
  printf(" %s\n", dlvsym(1));
  return 0;
}
