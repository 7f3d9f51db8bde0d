/* Trap 11: fork while another thread looks names up, again and again; each child opens a library. The C library makes the dynamic linker's locks
 * anew in a child, but for that of its list, which no look-up of the program's holds. A child that finds it taken waits for good.
 *
 * bare and guarded: prints the same line, exit 0. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 400 };

static atomic_int stop;

static void *look_up(void *unused) {
  (void)unused;
  while (!atomic_load(&stop)) dlsym(RTLD_DEFAULT, "no_such_name");
  return NULL;
}

int main(void) {
  pthread_t thread;
  int opened = 0;
  if (pthread_create(&thread, NULL, look_up, NULL) != 0) return 2;
  for (int i = 0; i < FORKS; i++) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      _exit(dlopen("libm.so.6", RTLD_NOW) == NULL);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) break;
    opened++;
  }
  atomic_store(&stop, 1);
  pthread_join(thread, NULL);
  printf("%d children opened a library\n", opened);
  return opened == FORKS ? 0 : 1;
}
