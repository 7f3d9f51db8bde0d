/* Calls functions of the driver and of an NCCL, each on a thread of its own, all arguments 0: what the harness has made never return.
 *
 *   every_call SYMBOL...
 *
 * A launch that is described by a structure gets one of zeros. Thread "never N" calls the Nth symbol, from 0, in wait_in_the_call. Those that return print their name, which is a mistake of the harness.
 * hangs in all of them
 * build: -fno-optimize-sibling-calls */
#include <cuda.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CK(call) \
  do {           \
    if ((call) != CUDA_SUCCESS) _exit(3); \
  } while (0)

typedef long any_function(long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long,
                          long, long, long, long, long, long);

static char **symbols;
static void *driver, *nccl;
static CUcontext context;

static long zeros[512];

__attribute__((noinline)) void wait_in_the_call(any_function *function, long first) {
  function(first, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  __asm__ volatile("");
}

static void *calls(void *number) {
  const char *symbol = symbols[(size_t)number];
  void *of = strncmp(symbol, "nccl", 4) == 0 ? nccl : driver;
  char name[16];
  snprintf(name, sizeof name, "never %zu", (size_t)number);
  pthread_setname_np(pthread_self(), name);
  CK(cuCtxSetCurrent(context));
  any_function *function = (any_function *)dlsym(of, symbol);
  if (function == NULL) _exit(4);
  wait_in_the_call(function, strncmp(symbol, "cuLaunchKernelEx", 16) == 0 ? (long)zeros : 0);
  puts(symbol);
  fflush(stdout);
  return NULL;
}

int main(int count, char **arguments) {
  if (count == 1) return 1;
  char path[PATH_MAX] = "";
  symbols = arguments + 1;
  if (readlink("/proc/self/exe", path, sizeof path - 32) < 0) return 2;
  strcpy(strrchr(path, '/'), "/libnever_nccl.so");
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  nccl = dlopen(path, RTLD_NOW);
  if (driver == NULL || nccl == NULL) return 2;
  CK(cuInit(0));
  CK(cuDevicePrimaryCtxRetain(&context, 0));
  for (long number = 0; number < count - 1; number++) {
    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    if (pthread_create(&thread, &small, calls, (void *)number) != 0) return 5;
  }
  for (;;) pause();
}
