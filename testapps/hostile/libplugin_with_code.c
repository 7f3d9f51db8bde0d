/* The plugin of plugin_with_code: its device code lies in it, as compilers put it there. What its constructor is to do stands in PLUGIN_DOES, and
 * the driver, which it may not open while it is opened itself, at the address in PLUGIN_JOB. */
#include "driver.h"

static _Alignas(8) char fat_binary[256 << 10];
__attribute__((section(".nvFatBinSegment"), used, aligned(8))) static struct fat_binary_reference reference = {0x466243b1, 1, fat_binary, NULL};
static const struct job *j;

/* The code is read from a file, where a compiler would have put it. */
static void fill(void) {
  size_t size;
  unsigned char *code = driver_fat_binary(&j->d, "job", &size);
  EXPECT(size <= sizeof fat_binary);
  memcpy(fat_binary, code, size);
  free(code);
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
