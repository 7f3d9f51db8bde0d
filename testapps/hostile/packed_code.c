/* The program loads a module and a library of fat binaries, each with a part that cannot be read, as compressed code cannot. A guard cannot tell whether that
 * part prints. The program's first launch comes while the context is idle, so a guard may bring both into the context right before that launch.
 *
 * bare and guarded: prints the same lines, exit 0. With a profile of an earlier run, too. */
#include "first_launch.h"

/* The code of NAME behind code that cannot be read; the driver takes what it can. */
static unsigned char *packed(const struct driver *d, const char *name) {
  static const unsigned char body[16] = {0x28, 0xb5, 0x2f, 0xfd};
  const struct code_head code = {2, 1, sizeof code, sizeof body};
  struct fat_binary_head head;
  size_t size;
  unsigned char *plain = driver_fat_binary(d, name, &size);
  unsigned char *all = malloc(size + sizeof code + sizeof body);
  EXPECT(all != NULL);
  memcpy(&head, plain, sizeof head);
  EXPECT(head.head_bytes == sizeof head);
  head.bytes += sizeof code + sizeof body;
  memcpy(all, &head, sizeof head);
  memcpy(all + sizeof head, &code, sizeof code);
  memcpy(all + sizeof head + sizeof code, body, sizeof body);
  memcpy(all + sizeof head + sizeof code + sizeof body, plain + sizeof head, size - sizeof head);
  free(plain);
  return all;
}

int main(void) {
  const struct fresh f = fresh_context();
  CK(f.d.ctx_synchronize());
  printf("the first launch has counted to %d\n", fresh_count(&f, fresh_function(&f, "corpus", "step")));
  CUmodule module;
  CUfunction function;
  CK(f.load(&module, packed(&f.d, "corpus")));
  CK(f.function(&function, module, "step"));
  printf("the module has counted to %d\n", fresh_count(&f, function));
  CUlibrary library;
  CUkernel kernel;
  CK(f.d.library_load(&library, packed(&f.d, "corpus"), NULL, NULL, 0, NULL, NULL, 0));
  CK(f.d.library_kernel(&kernel, library, "step"));
  printf("the library has counted to %d\n", fresh_count(&f, (CUfunction)kernel));
  return 0;
}
