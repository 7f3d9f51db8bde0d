/* The first launch of the context is made beside a stream that waits for the host, and a module that prints is loaded only after that. Where a
 * module of the context prints, the driver holds the context's first launch back until everything in flight has ended: had the guard the second
 * module there ahead of it, the program would hang.
 *
 * bare and guarded: prints the same lines, exit 0. With a profile of an earlier run, too. */
#include "first_launch.h"

int main(void) {
  const struct fresh f = fresh_context();
  fresh_launch_beside_a_wait(&f, fresh_function(&f, "corpus", "step"));
  printf("the kernel that prints has counted to %d\n", fresh_count(&f, fresh_function(&f, "corpus_prints", "prints")));
  return 0;
}
