/* A fat binary in the program, as compilers put it there, of which a CUDA runtime makes a library at the first use of a kernel: it prints, and is used only
 * after the context's first launch, which is made beside a stream that waits for the host. A guard that knows from a profile that the library
 * comes may load it ahead; had it the library's kernels in the context ahead of that launch, the driver would hold the launch back, and the program would
 * hang.
 *
 * bare and guarded: prints the same lines, exit 0. With a profile of an earlier run, too. */
#include "first_launch.h"

static _Alignas(8) char fat_binary[256 << 10];
__attribute__((section(".nvFatBinSegment"), used, aligned(8))) static struct fat_binary_reference reference = {0x466243b1, 1, fat_binary, NULL};

/* The code is read from a file, where a compiler would have put it. */
static void fill(const struct driver *d) {
  size_t size;
  unsigned char *code = driver_fat_binary(d, "corpus_prints", &size);
  EXPECT(size <= sizeof fat_binary);
  memcpy(fat_binary, code, size);
  free(code);
}

int main(void) {
  const struct driver d = driver_open();
  CK(d.init(0));
  fill(&d);
  const struct fresh f = fresh_context();
  fresh_launch_beside_a_wait(&f, fresh_function(&f, "corpus", "step"));
  CUlibrary library;
  CUkernel prints;
  CUlibraryOption preserved[] = {CU_LIBRARY_BINARY_IS_PRESERVED};
  void *yes[] = {(void *)1};
  CK(d.library_load(&library, &reference, NULL, NULL, 0, preserved, yes, 1));
  CK(d.library_kernel(&prints, library, "prints"));
  printf("the kernel that prints has counted to %d\n", fresh_count(&f, (CUfunction)prints));
  return 0;
}
