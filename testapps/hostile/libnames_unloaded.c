/* The plugin of names_unloaded: it has some functions of NCCL's names, and says when it goes. */
#include <stdio.h>

static int uses;
int ncclGroupEnd(void) { return ++uses; }
int ncclAllReduce(void) { return ++uses; }
int cuStreamSynchronize(void) { return ++uses; }
int use(void) { return ncclGroupEnd() + 10 * ncclAllReduce() + 100 * cuStreamSynchronize(); }
__attribute__((destructor)) static void end(void) {
  puts("the plugin is unloaded");
  fflush(stdout);
}
