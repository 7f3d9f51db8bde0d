/* The functions a C library links into every object instead of exporting them, in terms of what
 * glibc 2.17 exports. They replace libc_nonshared.a of the build machine in the link of
 * liblazyguard.so, because on newer machines these are plain exports with newer versions.
 *
 * Must not export anything: the names stay private to the library that links this archive. */
#define _GNU_SOURCE 1
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* The layout number that the exported workers expect of struct stat and mknod. */
#if defined(__x86_64__)
enum { STAT_VERSION = 1, MKNOD_VERSION = 0 };
#else
enum { STAT_VERSION = 0, MKNOD_VERSION = 0 };
#endif

extern int __xstat64(int, const char *, void *);
extern int __lxstat64(int, const char *, void *);
extern int __fxstat64(int, int, void *);
extern int __fxstatat64(int, int, const char *, void *, int);
extern int __xmknod(int, const char *, mode_t, dev_t *);

/* Named apart from the headers' prototypes, which would differ in the type of the buffer. struct
 * stat and struct stat64 are the same on every 64-bit machine. */
#define STAT_FAMILY(suffix)                                                                        \
  HIDDEN int lg_stat##suffix(const char *path, void *buffer) __asm__("stat" #suffix);              \
  HIDDEN int lg_lstat##suffix(const char *path, void *buffer) __asm__("lstat" #suffix);            \
  HIDDEN int lg_fstat##suffix(int fd, void *buffer) __asm__("fstat" #suffix);                      \
  HIDDEN int lg_fstatat##suffix(int fd, const char *path, void *buffer, int flags) __asm__(        \
      "fstatat" #suffix);                                                                          \
  int lg_stat##suffix(const char *path, void *buffer) {                                            \
    return __xstat64(STAT_VERSION, path, buffer);                                                  \
  }                                                                                                \
  int lg_lstat##suffix(const char *path, void *buffer) {                                           \
    return __lxstat64(STAT_VERSION, path, buffer);                                                 \
  }                                                                                                \
  int lg_fstat##suffix(int fd, void *buffer) { return __fxstat64(STAT_VERSION, fd, buffer); }      \
  int lg_fstatat##suffix(int fd, const char *path, void *buffer, int flags) {                      \
    return __fxstatat64(STAT_VERSION, fd, path, buffer, flags);                                    \
  }

STAT_FAMILY()
STAT_FAMILY(64)

HIDDEN int mknod(const char *path, mode_t mode, dev_t device) {
  return __xmknod(MKNOD_VERSION, path, mode, &device);
}

/* The object that links this: its handlers go when it goes. */
extern HIDDEN void *__dso_handle;

extern int __cxa_atexit(void (*)(void *), void *, void *);
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);

static void call_without_argument(void *function) { ((void (*)(void))function)(); }

HIDDEN int atexit(void (*function)(void)) {
  return __cxa_atexit(call_without_argument, (void *)function, __dso_handle);
}

HIDDEN int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  return __register_atfork(prepare, parent, child, __dso_handle);
}

/* gcc 12 and newer find the unwind tables of an address by _dl_find_object, which glibc has from
 * 2.35 on. Walking the loaded objects gives the same answer everywhere. The layout below is that of
 * struct dl_find_object, which is part of that interface. */
struct found_object {
  unsigned long long flags;
  void *map_start;
  void *map_end;
  void *link_map;
  void *eh_frame;
  unsigned long long reserved[7];
};

struct search {
  ElfW(Addr) address;
  struct found_object *found;
};

static int holds_address(struct dl_phdr_info *object, size_t size, void *argument) {
  struct search *search = argument;
  const ElfW(Phdr) *unwind_table = NULL;
  ElfW(Addr) start = 0;
  ElfW(Addr) end = 0;
  int hit = 0;
  (void)size;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &object->dlpi_phdr[i];
    if (header->p_type == PT_GNU_EH_FRAME) {
      unwind_table = header;
    } else if (header->p_type == PT_LOAD) {
      ElfW(Addr) from = object->dlpi_addr + header->p_vaddr;
      ElfW(Addr) to = from + header->p_memsz;
      if (start == 0 || from < start) {
        start = from;
      }
      if (to > end) {
        end = to;
      }
      if (search->address >= from && search->address < to) {
        hit = 1;
      }
    }
  }
  if (!hit || unwind_table == NULL) {
    return 0;
  }
  memset(search->found, 0, sizeof *search->found);
  search->found->map_start = (void *)start;
  search->found->map_end = (void *)end;
  search->found->eh_frame = (void *)(object->dlpi_addr + unwind_table->p_vaddr);
  return 1;
}

HIDDEN int lg_dl_find_object(void *address, struct found_object *found) __asm__("_dl_find_object");

int lg_dl_find_object(void *address, struct found_object *found) {
  struct search search = {(ElfW(Addr))address, found};
  return dl_iterate_phdr(holds_address, &search) == 1 ? 0 : -1;
}
