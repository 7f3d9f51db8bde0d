/* The functions a C library links into every object instead of exporting them, in terms of what
 * glibc 2.17 exports. They replace libc_nonshared.a of the build machine in the link of
 * liblazyguard.so, because on newer machines these are plain exports with newer versions.
 *
 * Before glibc 2.34, threads and the dynamic linker's functions were in libraries of their own. To need those would load two more files
 * into every process, on new machines empty ones, at a third of what the library adds to a start. So the few functions that are used
 * are looked up when the first call comes.
 *
 * Must not export anything: the names stay private to the library that links this archive. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
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

/* What compilers call for copies and comparisons. In the library itself, so that no interposer of a sanitizer runs before its sanitizer has
 * started, and nothing that the program has under such a name. Long copies are the processor's own instruction, which is as fast as any. */
typedef unsigned long word __attribute__((may_alias, aligned(1)));

static inline void copy_up(char *to, const char *from, size_t length) {
#if defined(__x86_64__)
  if (length >= 512) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
    return;
  }
#endif
  for (; length >= sizeof(word); length -= sizeof(word), to += sizeof(word), from += sizeof(word)) {
    *(word *)to = *(const word *)from;
  }
  for (; length > 0; length--) {
    *to++ = *from++;
  }
}

HIDDEN void *memcpy(void *restrict to, const void *restrict from, size_t length) {
  copy_up(to, from, length);
  return to;
}

HIDDEN void *memmove(void *to, const void *from, size_t length) {
  if ((size_t)to - (size_t)from >= length) {
    copy_up(to, from, length);
    return to;
  }
  char *end = (char *)to + length;
  const char *last = (const char *)from + length;
  for (; length >= sizeof(word); length -= sizeof(word)) {
    end -= sizeof(word);
    last -= sizeof(word);
    *(word *)end = *(const word *)last;
  }
  for (; length > 0; length--) {
    *--end = *--last;
  }
  return to;
}

HIDDEN void *memset(void *to, int byte, size_t length) {
  char *at = to;
#if defined(__x86_64__)
  if (length >= 512) {
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(length) : "a"(byte) : "memory");
    return to;
  }
#endif
  const word all = (unsigned char)byte * 0x0101010101010101UL;
  for (; length >= sizeof(word); length -= sizeof(word), at += sizeof(word)) {
    *(word *)at = all;
  }
  for (; length > 0; length--) {
    *at++ = (char)byte;
  }
  return to;
}

HIDDEN int memcmp(const void *one, const void *other, size_t length) {
  const unsigned char *a = one, *b = other;
  for (; length >= sizeof(word) && *(const word *)a == *(const word *)b; length -= sizeof(word)) {
    a += sizeof(word);
    b += sizeof(word);
  }
  for (; length > 0; length--, a++, b++) {
    if (*a != *b) {
      return *a - *b;
    }
  }
  return 0;
}

HIDDEN int bcmp(const void *one, const void *other, size_t length) { return memcmp(one, other, length); }

HIDDEN size_t strlen(const char *text) {
  size_t length = 0;
  while (text[length] != '\0') {
    length++;
  }
  return length;
}

HIDDEN size_t strnlen(const char *text, size_t most) {
  size_t length = 0;
  while (length < most && text[length] != '\0') {
    length++;
  }
  return length;
}

HIDDEN int mknod(const char *path, mode_t mode, dev_t device) {
  return __xmknod(MKNOD_VERSION, path, mode, &device);
}

/* The object that links this, which the C library's start files would define. Without those no code of theirs runs in each process at its
 * start and end. What it would do there is not needed: the object stays to the end. */
HIDDEN void *__dso_handle = &__dso_handle;

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

/* The first is in libdl.so.2 before glibc 2.34, and there is none where nothing had loaded that when the process started. The others are in
 * libc.so.6 just then, and only then. */
extern void *dlvsym(void *, const char *, const char *) __attribute__((weak));
extern void *__libc_dlopen_mode(const char *, int) __attribute__((weak));
extern void *__libc_dlsym(void *, const char *) __attribute__((weak));

#if defined(__x86_64__)
#define OLD_VERSION "GLIBC_2.2.5"
#else
#define OLD_VERSION "GLIBC_2.17"
#endif

/* The flags of a dlopen that the C library makes for itself: RTLD_NOW, and its own mark. */
#define LIKE_DLOPEN (RTLD_NOW | (int)0x80000000)

static void *in_library(const char *library, const char *name) {
  void *opened = __libc_dlopen_mode && __libc_dlsym ? __libc_dlopen_mode(library, LIKE_DLOPEN) : NULL;
  return opened ? __libc_dlsym(opened, name) : NULL;
}

/* The next one behind this library, so that an interposer such as a sanitizer's comes first, and a function that the program itself has under
 * such a name does not. A program that a sanitizer's runtime is linked into has the interposer itself. */
static void *in_order(const char *name) {
  void *found = dlvsym ? dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34") : NULL;
  if (dlvsym && found == NULL) {
    found = dlvsym(RTLD_NEXT, "dlsym", OLD_VERSION);
  }
  if (found == NULL) {
    return NULL;
  }
  void *(*look_up)(void *, const char *) = (void *(*)(void *, const char *))found;
  void *is_sanitized = look_up(RTLD_DEFAULT, "__sanitizer_print_stack_trace");
  return look_up(is_sanitized ? RTLD_DEFAULT : RTLD_NEXT, name);
}

static void *found_in(const char *library, const char *name) {
  void *found = in_order(name);
  return found ? found : in_library(library, name);
}

/* Calls the function where there is one. */
#define CALLS(function, result, name, parameters, arguments, without)                              \
  HIDDEN result lg_##name parameters __asm__(#name);                                               \
  result lg_##name parameters {                                                                    \
    void *found = function;                                                                        \
    return found ? ((result(*) parameters)found) arguments : without;                              \
  }

/* These take the dynamic linker's lock themselves, as a look-up does. Two threads that look at a time find the same. */
static void *of_linker(void **kept, const char *name) {
  void *found = __atomic_load_n(kept, __ATOMIC_ACQUIRE);
  if (found == NULL) {
    found = found_in("libdl.so.2", name);
    __atomic_store_n(kept, found, __ATOMIC_RELEASE);
  }
  return found;
}

#define OF_LINKER(result, name, ...)                                                               \
  static void *kept_##name;                                                                        \
  CALLS(of_linker(&kept_##name, #name), result, name, __VA_ARGS__)

OF_LINKER(void *, dlopen, (const char *file, int mode), (file, mode), NULL)
OF_LINKER(int, dlclose, (void *object), (object), -1)
OF_LINKER(int, dladdr1, (const void *address, void *info, void **extra, int flags), (address, info, extra, flags), 0)

/* From glibc 2.34 on they are there when a process starts: weak references, by the linker's `--wrap` (glibc_floor.py), so that no look-up takes the
 * thread's pending `dlerror`. Before, all are looked up when the first of them is called, which is while the driver is initialised. Later a thread that
 * launches may call one, and must not wait for that lock: the thread that holds it, in a constructor, may wait for the launch. The names are no
 * pointers, which each process would have to relocate. */
enum { CREATE, SET_STACK_SIZE, DETACH, CREATE_KEY, DELETE_KEY, SET_SPECIFIC, SET_NAME, FUNCTIONS };

static const char names_of_threads[FUNCTIONS][32] = {
    [CREATE] = "pthread_create",         [SET_STACK_SIZE] = "pthread_attr_setstacksize", [DETACH] = "pthread_detach",
    [CREATE_KEY] = "pthread_key_create", [DELETE_KEY] = "pthread_key_delete",            [SET_SPECIFIC] = "pthread_setspecific",
    [SET_NAME] = "pthread_setname_np",
};

static void *of_threads(int which) {
  static void *kept[FUNCTIONS];
  if (__atomic_load_n(&kept[which], __ATOMIC_ACQUIRE) == NULL) {
    for (int i = 0; i < FUNCTIONS; i++) {
      __atomic_store_n(&kept[i], found_in("libpthread.so.0", names_of_threads[i]), __ATOMIC_RELEASE);
    }
  }
  return __atomic_load_n(&kept[which], __ATOMIC_ACQUIRE);
}

#define OF_THREADS(which, name, parameters, arguments)                                             \
  extern int real_##name parameters __asm__("__real_" #name) __attribute__((weak));                \
  HIDDEN int wrap_##name parameters __asm__("__wrap_" #name);                                      \
  int wrap_##name parameters {                                                                     \
    void *found = real_##name ? (void *)real_##name : of_threads(which);                           \
    return found ? ((int(*) parameters)found) arguments : ENOSYS;                                  \
  }

OF_THREADS(CREATE, pthread_create, (pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *), void *argument),
           (thread, how, body, argument))
OF_THREADS(SET_STACK_SIZE, pthread_attr_setstacksize, (pthread_attr_t * how, size_t size), (how, size))
OF_THREADS(DETACH, pthread_detach, (pthread_t thread), (thread))
OF_THREADS(CREATE_KEY, pthread_key_create, (pthread_key_t *key, void (*end)(void *)), (key, end))
OF_THREADS(DELETE_KEY, pthread_key_delete, (pthread_key_t key), (key))
OF_THREADS(SET_SPECIFIC, pthread_setspecific, (pthread_key_t key, const void *value), (key, value))
OF_THREADS(SET_NAME, pthread_setname_np, (pthread_t thread, const char *name), (thread, name))

/* A signal handler may call it, which must look nothing up. The two functions block the same signals. */
HIDDEN int lg_pthread_sigmask(int how, const sigset_t *set, sigset_t *before) __asm__("pthread_sigmask");

int lg_pthread_sigmask(int how, const sigset_t *set, sigset_t *before) {
  int kept = errno;
  int result = sigprocmask(how, set, before) == 0 ? 0 : errno;
  errno = kept;
  return result;
}
