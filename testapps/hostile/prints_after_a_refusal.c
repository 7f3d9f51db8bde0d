/* As prints_later, after a launch that the driver refuses: the context's first launch is still to come.
 *
 * bare and guarded: prints the same lines, exit 0. With a profile of an earlier run, too. */
#include "first_launch.h"

int main(void) {
  const struct fresh f = fresh_context();
  const CUfunction step = fresh_function(&f, "corpus", "step");
  void *parameters[] = {(void *)&f.word};
  EXPECT(f.d.launch(step, 1, 1, 1, 4096, 1, 1, 0, f.works, parameters, NULL) != CUDA_SUCCESS);
  fresh_launch_beside_a_wait(&f, step);
  printf("the kernel that prints has counted to %d\n", fresh_count(&f, fresh_function(&f, "corpus_prints", "prints")));
  return 0;
}
