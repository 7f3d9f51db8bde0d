/* The outer library of chain: a frame of a size that is known only when it runs, whose place the frame pointer register keeps.
 *
 * build: -fomit-frame-pointer -fno-optimize-sibling-calls */
#include <dlfcn.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

int chain_outer(int (*function)(void *), void *argument) {
  char path[PATH_MAX] = "";
  if (readlink("/proc/self/exe", path, sizeof path - 32) < 0) return 2;
  strcpy(strrchr(path, '/'), "/libchain_inner.so");
  void *inner = dlopen(path, RTLD_NOW);
  if (inner == NULL) return 2;
  int (*call)(int (*)(void *), void *) = (int (*)(int (*)(void *), void *))dlsym(inner, "chain_inner");
  if (call == NULL) return 2;
  volatile char room[strlen(path) + 100];
  room[0] = path[0];
  return call(function, argument) + (room[0] == 'x');  // outer
}
