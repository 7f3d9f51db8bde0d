/* Modules of one fat binary: by a reference, which cuModuleLoadFatBinary does not take, by its own address and from a file, with a log, one of a
 * fat binary that differs in one byte, and one whose kernel prints, for which the program sets the limits of the context first. Each has a variable
 * of its own, which is 0 when the module is new.
 *
 * bare and guarded: prints the same lines, exit 0. With a profile of an earlier run, too. */
#include "modules.h"

static CUresult (*load_with)(CUmodule *, const void *, unsigned, CUjit_option *, void **);
static CUresult (*load_fat)(CUmodule *, const void *);
static CUresult (*set_limit)(CUlimit, size_t);

/* Eight bytes are added to the body of the last entry, as padding has them, so that one can differ that means nothing. */
static unsigned char *padded(unsigned char *code, size_t *size) {
  struct fat_binary_head head;
  struct code_head entry;
  size_t at, last;
  code = realloc(code, *size + 8);
  EXPECT(code != NULL);
  memset(code + *size, 0, 8);
  memcpy(&head, code, sizeof head);
  for (at = last = head.head_bytes; at < head.head_bytes + head.bytes; at += entry.head_bytes + entry.bytes) {
    memcpy(&entry, code + at, sizeof entry);
    last = at;
  }
  entry.bytes += 8;
  memcpy(code + last, &entry, sizeof entry);
  head.bytes += 8;
  memcpy(code, &head, sizeof head);
  *size += 8;
  return code;
}

int main(void) {
  size_t size, size_that_prints;
  modules_begin();
  FUNCTION(load_with, "cuModuleLoadDataEx");
  FUNCTION(load_fat, "cuModuleLoadFatBinary");
  FUNCTION(set_limit, "cuCtxSetLimit");
  printf("limits: %d and %d\n", set_limit(CU_LIMIT_PRINTF_FIFO_SIZE, 8 << 20), set_limit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 << 20));

  unsigned char *code = padded(driver_fat_binary(&j.d, "lazy_pair", &size), &size);
  const struct fat_binary_reference reference = {0x466243b1, 1, code, NULL};
  CUmodule modules[5];
  printf("a reference, as a fat binary: %d\n", load_fat(&modules[0], &reference));
  CK(load_fat(&modules[0], code));
  CK(load(&modules[1], &reference));
  CK(load(&modules[2], code));
  /* Read at this moment, and no other: the same reference is to other code from now on. */
  code[size - 1] = 1;
  CK(load(&modules[3], &reference));
  code[size - 1] = 0;
  char log[64] = "";
  CUjit_option logged[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
  void *into[] = {log, (void *)sizeof log};
  CK(load_with(&modules[4], code, 2, logged, into));
  for (int one = 0; one < 5; one++) {
    for (int other = 0; other < one; other++) EXPECT(modules[one] != modules[other]);
  }
  use("as a fat binary", modules[0]);
  use("by a reference", modules[1]);
  use("by itself", modules[2]);
  use("another byte", modules[3]);
  use("with a log", modules[4]);
  for (int one = 0; one < 5; one++) CK(unload(modules[one]));
  CK(load_fat(&modules[0], code));
  use("once more", modules[0]);
  CK(unload(modules[0]));
  use_from_a_file(code, size);

  CUfunction prints;
  unsigned char *code_that_prints = driver_fat_binary(&j.d, "corpus_prints", &size_that_prints);
  CK(load_fat(&modules[0], code_that_prints));
  CK(function_of(&prints, modules[0], "prints"));
  printf("the limit before a kernel that prints is launched: %d\n", set_limit(CU_LIMIT_PRINTF_FIFO_SIZE, 4 << 20));
  CUdeviceptr sum = j.sum;
  CK(job_launch(&j, prints, j.stream, &sum, NULL));
  printf("it has counted to %d\n", job_sum(&j));
  printf("the limit after it: %d\n", set_limit(CU_LIMIT_PRINTF_FIFO_SIZE, 8 << 20));
  CK(unload(modules[0]));
  free(code_that_prints);
  free(code);
  job_end(&j);
  return 0;
}
