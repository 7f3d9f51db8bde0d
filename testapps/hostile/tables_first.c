/* Images whose tables of sections stand in front of what is in a section, as compilers do not write them: loaded from memory and from a file, then
 * another one that differs only behind its tables.
 *
 * bare and guarded: prints the same lines, exit 0. With a profile of an earlier run, too. */
#include "modules.h"
#include <elf.h>

#define BEHIND (1 << 20)

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
  modules_begin();
  unsigned char *code = driver_image_of_size(&j.d, "lazy_pair", &size);
  if (memcmp(code, "\177ELF", 4) == 0) code = with_a_section_behind(code, &size);
  CK(load(&module, code));
  use("from memory", module);
  CK(unload(module));
  use_from_a_file(code, size);
  code[size - 1] ^= 1;
  CK(load(&module, code));
  use("another one", module);
  CK(unload(module));
  free(code);
  job_end(&j);
  return 0;
}
