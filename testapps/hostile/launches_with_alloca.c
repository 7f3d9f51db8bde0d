/* A program with a CUDA runtime of its own launches by itself, in a function whose frame is large at first and small then. Above the thread's stack is
 * memory that cannot be read.
 *
 * bare and guarded: prints the same line, exit 0. */
#include "driver.h"

#include <alloca.h>
#include <sys/mman.h>

enum { STACK = 1 << 18, UNREADABLE = 1 << 16 };

static struct job j;

/* A runtime asks for it when it starts. */
static void asks_for_the_loading_mode(void) {
  CUresult (*find)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *) =
      (__typeof__(find))dlsym(j.d.handle, "cuGetProcAddress_v2");
  CUresult (*mode_of)(CUmoduleLoadingMode *) = NULL;
  CUmoduleLoadingMode mode;
  EXPECT(find != NULL);
  CK(find("cuModuleGetLoadingMode", (void **)&mode_of, 11070, 0, NULL));
  CK(mode_of(&mode));
}

__attribute__((noinline)) static void launches(size_t room) {
  volatile char *const taken = (volatile char *)alloca(room);
  taken[0] = taken[room - 1] = 1;
  CK(job_add(&j, j.stream, 1));
  EXPECT(taken[0] == 1);
}

static void *thread_of_small_stack(void *unused) {
  CK(j.d.set_current(j.context));
  for (int i = 0; i < 3; i++) launches(40000);
  for (int i = 0; i < 3; i++) launches(16);
  return unused;
}

int main(void) {
  pthread_t thread;
  pthread_attr_t attributes;
  job_begin(&j);
  asks_for_the_loading_mode();
  char *const memory = (char *)mmap(NULL, STACK + UNREADABLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(memory != MAP_FAILED && mprotect(memory + STACK, UNREADABLE, PROT_NONE) == 0);
  EXPECT(pthread_attr_init(&attributes) == 0 && pthread_attr_setstack(&attributes, memory, STACK) == 0);
  EXPECT(pthread_create(&thread, &attributes, thread_of_small_stack, NULL) == 0);
  pthread_join(thread, NULL);
  printf("sum %d\n", job_sum(&j));
  job_end(&j);
  return 0;
}
