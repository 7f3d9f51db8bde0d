/* Trap 2: dlsym(RTLD_NEXT) means "next after the caller". Another interposer, preloaded after the guard, finds the real getpid that way;
 * asked on its behalf from the guard's address, it would find itself and recurse without end.
 *
 * The program starts itself again with libtrap02_next.so at the end of LD_PRELOAD, so that the order is the same with and without a
 * guard in front.
 *
 * bare and guarded: prints the same three lines, exit 0. */
#include <sys/syscall.h>

#include "driver.h"

int main(void) {
  const char *preload = getenv("LD_PRELOAD");
  if (preload == NULL || strstr(preload, "libtrap02_next.so") == NULL) {
    char value[8192];
    char self[4096];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    EXPECT(n > 0);
    self[n] = '\0';
    snprintf(value, sizeof value, "%s%s%s", preload != NULL ? preload : "", preload != NULL ? ":" : "", beside("libtrap02_next.so"));
    setenv("LD_PRELOAD", value, 1);
    execl(self, self, (char *)NULL);
    return 5;
  }
  const long real = syscall(SYS_getpid);
  printf("getpid through the interposer: %s\n", getpid() == real ? "right" : "wrong");
  const int *calls = dlsym(RTLD_DEFAULT, "next_getpid_calls");
  printf("interposed calls: %d\n", calls != NULL ? *calls : -1);
  printf("RTLD_NEXT from the program for a symbol of libc: %s\n", dlsym(RTLD_NEXT, "puts") != NULL ? "found" : "not found");
  return 0;
}
