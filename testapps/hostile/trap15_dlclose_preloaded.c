/* Trap 15: the program gets handles to everything in LD_PRELOAD and closes them more often than it opened them. What is preloaded must
 * stay: its functions are in use.
 *
 * bare and guarded: prints the same line, exit 0. */
#include "driver.h"

int main(void) {
  struct job j;
  job_begin(&j);
  CK(job_add(&j, j.stream, 1));
  const char *preload = getenv("LD_PRELOAD");
  char *list = strdup(preload != NULL ? preload : ""), *next = NULL;
  EXPECT(list != NULL);
  for (char *path = strtok_r(list, ": ", &next); path != NULL; path = strtok_r(NULL, ": ", &next)) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (handle == NULL) continue;
    for (int i = 0; i < 5; i++) dlclose(handle);
  }
  free(list);
  dlerror();
  CK(job_add(&j, j.stream, 2));
  printf("sum %d\n", job_sum(&j));
  job_end(&j);
  return 0;
}
