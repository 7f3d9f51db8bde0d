/* What the hostile programs share: the driver by dlopen and dlsym, its device code, and a small job whose result is known.
 *
 * Plain C and nothing but libc, so that a program shows exactly what it does to the process. Every failure of a driver call ends the
 * program with exit code 3, every wrong result with 4: both are differences a harness sees. Must not print anything by itself. */
#ifndef HOSTILE_DRIVER_H
#define HOSTILE_DRIVER_H

#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CK(call)                                                            \
  do {                                                                      \
    const int check_result = (int)(call);                                   \
    if (check_result != CUDA_SUCCESS) {                                     \
      fprintf(stderr, "%s:%d: %s: CUDA error (%d)\n", __FILE__, __LINE__, #call, check_result); \
      fflush(stdout);                                                       \
      _exit(3);                                                             \
    }                                                                       \
  } while (0)

#define EXPECT(what)                                                        \
  do {                                                                      \
    if (!(what)) {                                                          \
      fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #what);   \
      fflush(stdout);                                                       \
      _exit(4);                                                             \
    }                                                                       \
  } while (0)

#define DRIVER_FUNCTIONS(X)                                 \
  X(init, cuInit, "cuInit")                                 \
  X(get_version, cuDriverGetVersion, "cuDriverGetVersion")  \
  X(device_get, cuDeviceGet, "cuDeviceGet")                 \
  X(device_get_name, cuDeviceGetName, "cuDeviceGetName")    \
  X(primary_retain, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain") \
  X(primary_release, cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2") \
  X(get_current, cuCtxGetCurrent, "cuCtxGetCurrent")        \
  X(set_current, cuCtxSetCurrent, "cuCtxSetCurrent")        \
  X(ctx_synchronize, cuCtxSynchronize, "cuCtxSynchronize")  \
  X(stream_create, cuStreamCreate, "cuStreamCreate")        \
  X(stream_destroy, cuStreamDestroy, "cuStreamDestroy_v2")  \
  X(stream_query, cuStreamQuery, "cuStreamQuery")           \
  X(stream_synchronize, cuStreamSynchronize, "cuStreamSynchronize") \
  X(begin_capture, cuStreamBeginCapture, "cuStreamBeginCapture_v2") \
  X(end_capture, cuStreamEndCapture, "cuStreamEndCapture")  \
  X(graph_instantiate, cuGraphInstantiate, "cuGraphInstantiateWithFlags") \
  X(graph_launch, cuGraphLaunch, "cuGraphLaunch")           \
  X(mem_alloc, cuMemAlloc, "cuMemAlloc_v2")                 \
  X(mem_free, cuMemFree, "cuMemFree_v2")                    \
  X(host_alloc, cuMemHostAlloc, "cuMemHostAlloc")           \
  X(host_device_pointer, cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2") \
  X(memset, cuMemsetD32, "cuMemsetD32_v2")                  \
  X(copy_back, cuMemcpyDtoH, "cuMemcpyDtoH_v2")             \
  X(copy_async, cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2")  \
  X(write_value, cuStreamWriteValue32, "cuStreamWriteValue32_v2") \
  X(wait_value, cuStreamWaitValue32, "cuStreamWaitValue32_v2") \
  X(event_create, cuEventCreate, "cuEventCreate")           \
  X(event_record, cuEventRecord, "cuEventRecord")           \
  X(event_synchronize, cuEventSynchronize, "cuEventSynchronize") \
  X(library_load, cuLibraryLoadData, "cuLibraryLoadData")   \
  X(library_kernel, cuLibraryGetKernel, "cuLibraryGetKernel") \
  X(library_unload, cuLibraryUnload, "cuLibraryUnload")     \
  X(launch, cuLaunchKernel, "cuLaunchKernel")

struct driver {
  void *handle;
#define X(field, function, symbol) __typeof__(&function) field;
  DRIVER_FUNCTIONS(X)
#undef X
};

static inline struct driver driver_open(void) {
  struct driver d;
  d.handle = dlopen("libcuda.so.1", RTLD_NOW);
  EXPECT(d.handle != NULL);
#define X(field, function, symbol)                              \
  d.field = (__typeof__(&function))dlsym(d.handle, symbol);     \
  EXPECT(d.field != NULL);
  DRIVER_FUNCTIONS(X)
#undef X
  return d;
}

static inline void folder_of_executable(char *out, size_t size) {
  const ssize_t n = readlink("/proc/self/exe", out, size - 1);
  EXPECT(n > 0);
  out[n] = '\0';
  *strrchr(out, '/') = '\0';
}

/* A file beside the executable. */
static inline const char *beside(const char *name) {
  static char path[4608];
  char folder[4096];
  folder_of_executable(folder, sizeof folder);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

/* The device code of NAME, for the driver that is there. The caller keeps it as long as anything is loaded from it. */
static inline void driver_image_path(const struct driver *d, const char *name, char *path, size_t size) {
  char device_name[256] = "", folder[4096];
  CK(d->device_get_name(device_name, sizeof device_name, 0));
  folder_of_executable(folder, sizeof folder);
  snprintf(path, size, "%s/../kernels/%s%s", folder, name, strncmp(device_name, "Simulated", 9) == 0 ? ".host.so" : ".fatbin");
}

static inline void *driver_image_of_size(const struct driver *d, const char *name, size_t *size) {
  char path[4608];
  driver_image_path(d, name, path, sizeof path);
  FILE *file = fopen(path, "rb");
  EXPECT(file != NULL);
  EXPECT(fseek(file, 0, SEEK_END) == 0);
  const long bytes = ftell(file);
  EXPECT(bytes > 0);
  *size = (size_t)bytes;
  rewind(file);
  void *image = malloc(*size);
  EXPECT(image != NULL);
  EXPECT(fread(image, 1, *size, file) == *size);
  fclose(file);
  return image;
}

static inline void *driver_image(const struct driver *d, const char *name) {
  size_t size;
  return driver_image_of_size(d, name, &size);
}

/* What a fat binary begins with, and each code in it; and a reference to one, as compilers leave it in .nvFatBinSegment. */
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
struct fat_binary_reference {
  int magic, version;
  const void *data;
  void *unused;
};

/* The same as a fat binary: the real images are one, the simulated driver's become one with a single entry. */
static inline unsigned char *driver_fat_binary(const struct driver *d, const char *name, size_t *size) {
  void *image = driver_image_of_size(d, name, size);
  if (memcmp(image, "\177ELF", 4) != 0) return image;
  const struct code_head code = {2, 1, sizeof code, *size};
  const struct fat_binary_head head = {0xba55ed50, 1, sizeof head, sizeof code + *size};
  unsigned char *fat_binary = malloc(sizeof head + head.bytes);
  EXPECT(fat_binary != NULL);
  memcpy(fat_binary, &head, sizeof head);
  memcpy(fat_binary + sizeof head, &code, sizeof code);
  memcpy(fat_binary + sizeof head + sizeof code, image, *size);
  free(image);
  *size = sizeof head + head.bytes;
  return fat_binary;
}

/* A context with the library of kernels/job.cu in it, and a word to add to. */
struct job {
  struct driver d;
  CUdevice device;
  CUcontext context;
  CUstream stream;
  CUlibrary library;
  CUfunction add, nothing, spin, release;
  CUdeviceptr sum;
  void *code;
};

static inline CUfunction job_kernel(const struct job *j, const char *name) {
  CUkernel kernel;
  CK(j->d.library_kernel(&kernel, j->library, name));
  return (CUfunction)kernel;
}

static inline void job_begin_with(struct job *j, struct driver d) {
  j->d = d;
  CK(d.init(0));
  CK(d.device_get(&j->device, 0));
  CK(d.primary_retain(&j->context, j->device));
  CK(d.set_current(j->context));
  CK(d.stream_create(&j->stream, CU_STREAM_NON_BLOCKING));
  j->code = driver_image(&d, "job");
  CK(d.library_load(&j->library, j->code, NULL, NULL, 0, NULL, NULL, 0));
  j->add = job_kernel(j, "add");
  j->nothing = job_kernel(j, "nothing");
  j->spin = job_kernel(j, "spin");
  j->release = job_kernel(j, "release");
  CK(d.mem_alloc(&j->sum, sizeof(int)));
  CK(d.memset(j->sum, 0, 1));
  CK(d.ctx_synchronize());
}

static inline void job_begin(struct job *j) { job_begin_with(j, driver_open()); }

/* Launches one thread of a kernel that takes no, one or two parameters. */
static inline CUresult job_launch(const struct job *j, CUfunction function, CUstream stream, void *first, void *second) {
  void *parameters[] = {first, second, NULL};
  return j->d.launch(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

static inline CUresult job_add(const struct job *j, CUstream stream, int value) {
  CUdeviceptr sum = j->sum;
  return job_launch(j, j->add, stream, &sum, &value);
}

static inline int job_sum(const struct job *j) {
  int sum = -1;
  CK(j->d.stream_synchronize(j->stream));
  CK(j->d.copy_back(&sum, j->sum, sizeof sum));
  return sum;
}

/* A word that host and device both see, 0 at first. */
static inline volatile int *job_mapped_word(const struct job *j, CUdeviceptr *device) {
  void *host;
  CK(j->d.host_alloc(&host, sizeof(int), CU_MEMHOSTALLOC_DEVICEMAP));
  CK(j->d.host_device_pointer(device, host, 0));
  *(volatile int *)host = 0;
  return host;
}

static inline void job_end(struct job *j) {
  CK(j->d.mem_free(j->sum));
  CK(j->d.stream_destroy(j->stream));
  CK(j->d.library_unload(j->library));
  CK(j->d.primary_release(j->device));
  free(j->code);
}

/* A job from its begin to its end; its sum is 55. */
static inline int job_whole(void) {
  struct job j;
  job_begin(&j);
  for (int i = 1; i <= 10; i++) CK(job_add(&j, j.stream, i));
  const int sum = job_sum(&j);
  job_end(&j);
  return sum;
}

/* A child that exits with the sum of a whole job of its own. */
static inline pid_t job_in_child(void) {
  fflush(stdout);
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    alarm(10);
    exit(job_whole() == 55 ? 55 : 4);
  }
  return child;
}

static inline void sleep_ms(long ms) {
  const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

static inline void print_wait_status(const char *who, int status) {
  if (WIFEXITED(status)) printf("%s: exit %d\n", who, WEXITSTATUS(status));
  else if (WIFSIGNALED(status)) printf("%s: signal %d\n", who, WTERMSIG(status));
}

#endif
