/* The other interposer of trap02_rtld_next. */
#include <dlfcn.h>
#include <sys/types.h>

int next_getpid_calls;

pid_t getpid(void) {
  pid_t (*next)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "getpid");
  next_getpid_calls++;
  return next();
}
