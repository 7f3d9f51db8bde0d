/* Images whose tables of sections stand in front of what is in a section, as compilers do not write them: loaded from memory and from a file, then
 * another one that differs only behind its tables.
 *
 * bare and guarded: prints the same lines, exit 0. With a profile of an earlier run, too. */
#include "driver.h"
#include <elf.h>

#define BEHIND (1 << 20)

static struct job j;
static CUresult (*function_of)(CUfunction *, CUmodule, const char *);
static CUresult (*global_of)(CUdeviceptr *, size_t *, CUmodule, const char *);

static void use(const char *what, CUmodule module) {
  CUfunction set;
  CUdeviceptr variable;
  size_t size = 0;
  int before = -1, after = -1;
  CK(function_of(&set, module, "k2"));
  CK(global_of(&variable, &size, module, "s"));
  CK(j.d.copy_back(&before, variable, sizeof before));
  CK(job_launch(&j, set, NULL, NULL, NULL));
  CK(j.d.ctx_synchronize());
  CK(j.d.copy_back(&after, variable, sizeof after));
  printf("%s: %d of %zu bytes, then %d\n", what, before, size, after);
}

/* Puts a section that is not needed for a run behind everything else, and makes it long. */
static unsigned char *with_a_section_behind(unsigned char *code, size_t *size) {
  Elf64_Ehdr head;
  Elf64_Shdr section;
  int moved = 0;
  code = realloc(code, *size + BEHIND);
  EXPECT(code != NULL);
  memcpy(&head, code, sizeof head);
  memset(code + *size, 7, BEHIND);
  for (unsigned n = 1; n < head.e_shnum && !moved; n++) {
    unsigned char *at = code + head.e_shoff + n * sizeof section;
    memcpy(&section, at, sizeof section);
    if (section.sh_type != SHT_PROGBITS || (section.sh_flags & SHF_ALLOC) != 0) continue;
    section.sh_offset = *size;
    section.sh_size = BEHIND;
    memcpy(at, &section, sizeof section);
    moved = 1;
  }
  EXPECT(moved);
  *size += BEHIND;
  return code;
}

int main(void) {
  size_t size;
  CUmodule module;
  CUresult (*load)(CUmodule *, const void *);
  CUresult (*load_file)(CUmodule *, const char *);
  CUresult (*unload)(CUmodule);
  job_begin(&j);
#define FUNCTION(to, name) EXPECT((to = (__typeof__(to))dlsym(j.d.handle, name)) != NULL)
  FUNCTION(load, "cuModuleLoadData");
  FUNCTION(load_file, "cuModuleLoad");
  FUNCTION(unload, "cuModuleUnload");
  FUNCTION(function_of, "cuModuleGetFunction");
  FUNCTION(global_of, "cuModuleGetGlobal_v2");
  unsigned char *code = driver_image_of_size(&j.d, "lazy_pair", &size);
  if (memcmp(code, "\177ELF", 4) == 0) code = with_a_section_behind(code, &size);
  CK(load(&module, code));
  use("from memory", module);
  CK(unload(module));
  char path[] = "/tmp/lazyguard-tables-first-XXXXXX";
  const int file = mkstemp(path);
  EXPECT(file >= 0 && write(file, code, size) == (ssize_t)size && close(file) == 0);
  CK(load_file(&module, path));
  EXPECT(unlink(path) == 0);
  use("from a file", module);
  CK(unload(module));
  code[size - 1] ^= 1;
  CK(load(&module, code));
  use("another one", module);
  CK(unload(module));
  free(code);
  job_end(&j);
  return 0;
}
