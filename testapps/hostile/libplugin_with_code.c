/* The plugin of plugin_with_code: its device code lies in it, as compilers put it there. What its constructor is to do stands in PLUGIN_DOES, and
 * the driver, which it may not open while it is opened itself, at the address in PLUGIN_JOB. */
#include "driver.h"

struct fat_binary_head {
  unsigned magic;
  unsigned short version, head_bytes;
  unsigned long long bytes;
};
struct code_head {
  unsigned short kind, version;
  unsigned head_bytes;
  unsigned long long bytes;
};

static _Alignas(8) char fat_binary[256 << 10];
__attribute__((section(".nvFatBinSegment"), used, aligned(8))) static struct {
  int magic, version;
  const void *data;
  void *unused;
} reference = {0x466243b1, 1, fat_binary, NULL};
static const struct job *j;

/* The code is read from a file, where a compiler would have put it. */
static void fill(void) {
  const char *image = driver_image(&j->d, "job");
  if (memcmp(image, "\177ELF", 4) != 0) {
    const struct fat_binary_head *head = (const struct fat_binary_head *)image;
    EXPECT(head->head_bytes + head->bytes <= sizeof fat_binary);
    memcpy(fat_binary, image, head->head_bytes + head->bytes);
    return;
  }
  unsigned long long sections;
  unsigned short each, count;
  memcpy(&sections, image + 0x28, sizeof sections);
  memcpy(&each, image + 0x3a, sizeof each);
  memcpy(&count, image + 0x3c, sizeof count);
  const unsigned long long bytes = sections + (unsigned long long)each * count;
  const struct code_head code = {2, 1, sizeof code, bytes};
  const struct fat_binary_head head = {0xba55ed50, 1, sizeof head, sizeof code + bytes};
  EXPECT(sizeof head + head.bytes <= sizeof fat_binary);
  memcpy(fat_binary, &head, sizeof head);
  memcpy(fat_binary + sizeof head, &code, sizeof code);
  memcpy(fat_binary + sizeof head + sizeof code, image, bytes);
}

static CUlibrary loaded(void) {
  CUlibrary library;
  CUlibraryOption preserved[] = {CU_LIBRARY_BINARY_IS_PRESERVED};
  void *yes[] = {(void *)1};
  CK(j->d.library_load(&library, &reference, NULL, NULL, 0, preserved, yes, 1));
  return library;
}

static void *in_a_thread(void *unused) {
  CK(j->d.set_current(j->context));
  CK(j->d.library_unload(loaded()));
  return unused;
}

__attribute__((constructor)) static void begin(void) {
  pthread_t thread;
  j = (const struct job *)strtoul(getenv("PLUGIN_JOB"), NULL, 16);
  fill();
  if (strcmp(getenv("PLUGIN_DOES"), "constructor") != 0) return;
  EXPECT(pthread_create(&thread, NULL, in_a_thread, NULL) == 0);
  EXPECT(pthread_join(thread, NULL) == 0);
}

/* As a runtime does at the first launch. */
void use(void) {
  CUkernel kernel;
  const CUlibrary library = loaded();
  CK(j->d.library_kernel(&kernel, library, "nothing"));
  CK(job_launch(j, (CUfunction)kernel, j->stream, NULL, NULL));
  CK(j->d.stream_synchronize(j->stream));
  CK(j->d.library_unload(library));
}
