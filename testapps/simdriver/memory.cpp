// Allocation: device, pinned, managed and stream-ordered memory, registration, and what can be asked about a pointer.
//
// cuMemFree, cuMemFreeHost and cuMemHostUnregister wait for the whole context with its lock held, whatever the loading mode; cuMemFree of
// memory that came from a stream does neither.
// Stream-ordered allocation takes no context lock.
#include "memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <string>

#include "capture.hpp"
#include "entry.hpp"

namespace lgsim {
namespace {

struct Allocations {
  std::mutex mutex;
  std::map<uintptr_t, Allocation> by_base;
  uint64_t device_used = 0;
  uint64_t next_id = 1;
};
Allocations &allocations() {
  static Allocations *const t = new Allocations;
  return *t;
}
std::atomic<int64_t> code_bytes{0};

constexpr size_t kMapFrom = 64 << 10;  // from here on an allocation is a mapping, whose pages cost nothing until used

bool is_ours(Memory kind) {
  return kind == Memory::device || kind == Memory::host || kind == Memory::managed || kind == Memory::opened;
}

void *take(size_t bytes) {
  if (bytes >= kMapFrom) {
    void *at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? nullptr : at;
  }
  return aligned_alloc(512, (bytes + 511) / 512 * 512);
}

void give_back(const Allocation &a) {
  if (!is_ours(a.kind)) return;
  if (a.file >= 0) close(a.file);
  if (a.bytes >= kMapFrom)
    munmap(reinterpret_cast<void *>(a.base), a.bytes);
  else
    free(reinterpret_cast<void *>(a.base));
}

CUresult allocate(Context &context, size_t bytes, Memory kind, unsigned flags, uintptr_t &base, CUmemoryPool pool = nullptr) {
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (kind == Memory::device && bytes > free_device_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
  void *at = take(bytes);
  if (!at) return CUDA_ERROR_OUT_OF_MEMORY;
  base = reinterpret_cast<uintptr_t>(at);
  add_allocation({base, bytes, kind, flags, &context, 0, pool});
  return CUDA_SUCCESS;
}

}  // namespace

void add_allocation(const Allocation &allocation) {
  Allocations &t = allocations();
  std::lock_guard<std::mutex> hold(t.mutex);
  Allocation a = allocation;
  a.id = t.next_id++;
  if (a.kind == Memory::device) t.device_used += a.bytes;
  t.by_base[a.base] = a;
}

bool remove_allocation(uintptr_t base, Allocation &removed) {
  Allocations &t = allocations();
  std::lock_guard<std::mutex> hold(t.mutex);
  auto it = t.by_base.find(base);
  if (it == t.by_base.end()) return false;
  removed = it->second;
  if (removed.kind == Memory::device) t.device_used -= removed.bytes;
  t.by_base.erase(it);
  return true;
}

bool find_allocation(uintptr_t address, Allocation &found) {
  Allocations &t = allocations();
  std::lock_guard<std::mutex> hold(t.mutex);
  auto it = t.by_base.upper_bound(address);
  if (it == t.by_base.begin()) return false;
  --it;
  if (address - it->second.base >= it->second.bytes) return false;
  found = it->second;
  return true;
}

bool device_reaches(uintptr_t address, size_t bytes) {
  Allocation a;
  return find_allocation(address, a) && bytes <= a.bytes - (address - a.base);
}

bool share_allocation(uintptr_t address, Allocation &shared) {
  Allocations &t = allocations();
  std::lock_guard<std::mutex> hold(t.mutex);
  auto it = t.by_base.upper_bound(address);
  if (it == t.by_base.begin()) return false;
  Allocation &a = (--it)->second;
  if (address - a.base >= a.bytes || a.kind != Memory::device || a.bytes < kMapFrom) return false;
  if (a.file < 0) {
    void *const at = reinterpret_cast<void *>(a.base);
    const int file = memfd_create("lgsim", MFD_CLOEXEC);
    const bool filled = file >= 0 && ftruncate(file, static_cast<off_t>(a.bytes)) == 0 && write(file, at, a.bytes) == static_cast<ssize_t>(a.bytes);
    if (!filled || mmap(at, a.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
      if (file >= 0) close(file);
      return false;
    }
    a.file = file;
  }
  shared = a;
  return true;
}

void free_context_memory(Context &context) {
  Allocations &t = allocations();
  std::vector<Allocation> gone;
  {
    std::lock_guard<std::mutex> hold(t.mutex);
    for (auto it = t.by_base.begin(); it != t.by_base.end();) {
      if (it->second.context != &context) {
        ++it;
        continue;
      }
      if (it->second.kind == Memory::device) t.device_used -= it->second.bytes;
      gone.push_back(it->second);
      it = t.by_base.erase(it);
    }
  }
  for (const Allocation &a : gone) give_back(a);
}

uint64_t free_device_bytes() {
  const uint64_t others = local_memory_bytes() + static_cast<uint64_t>(code_bytes.load(std::memory_order_relaxed));
  std::lock_guard<std::mutex> hold(allocations().mutex);
  const uint64_t used = allocations().device_used + others;
  return used < kDeviceBytes ? kDeviceBytes - used : 0;
}

void count_code(int64_t bytes) { code_bytes.fetch_add(bytes, std::memory_order_relaxed); }

}  // namespace lgsim

using namespace lgsim;

namespace {

CUresult allocate_now(size_t bytes, Memory kind, unsigned flags, uintptr_t &base) {
  NEED_CONTEXT(context);
  Alone hold(context->api_lock);
  return allocate(*context, bytes, kind, flags, base);
}

CUresult allocate_device(CUdeviceptr *result, size_t bytes) {
  if (!result) return CUDA_ERROR_INVALID_VALUE;
  uintptr_t base = 0;
  CUresult r = allocate_now(bytes, Memory::device, 0, base);
  if (r == CUDA_SUCCESS) *result = base;
  return r;
}

CUresult allocate_host(void **result, size_t bytes, unsigned flags) {
  constexpr unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (!result || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
  uintptr_t base = 0;
  CUresult r = allocate_now(bytes, Memory::host, flags, base);
  if (r == CUDA_SUCCESS) *result = reinterpret_cast<void *>(base);
  return r;
}

// What cuMemFree, cuMemFreeHost and cuMemHostUnregister have in common: the whole context is waited for.
template <class Accept> CUresult release(uintptr_t base, CUresult unknown, Accept accept) {
  NEED_CONTEXT(context);
  Allocation a;
  if (find_allocation(base, a) && a.base == base && a.pool) {
    // The host does not wait; what is in flight may still use the memory.
    if (!remove_allocation(base, a)) return unknown;
    mark_context(*a.context, [a] { give_back(a); });
    return CUDA_SUCCESS;
  }
  Alone hold(context->api_lock);
  if (!find_allocation(base, a) || a.base != base || !accept(a.kind)) return unknown;
  wait_for_context(*context);
  if (a.context != context && a.context->alive) wait_for_context(*a.context);
  // Kernels that nothing waits for any more may still use the memory.
  if (work_is_lost()) return outcome();
  if (!remove_allocation(base, a)) return unknown;
  give_back(a);
  return CUDA_SUCCESS;
}

// A block that is freed in the order of a stream. A pool that may not grow hands it on before it is free: the stream that gets it then waits
// for what comes before the release, as where internal dependencies are allowed.
struct Released {
  uintptr_t base;
  size_t bytes;
  CUmemoryPool pool;
  OpRef release;
  bool handed_on = false;
};
struct Limited {
  std::mutex mutex;
  std::list<std::shared_ptr<Released>> released;
  std::map<CUmemoryPool, size_t> taken;  // bytes of pools with a limit
};
Limited &limited() {
  static Limited *const l = new Limited;
  return *l;
}

// True where the pool has room, or a block that it may hand on: then with its address, and the release behind which it is free.
bool take_from_pool(CUmemoryPool pool, size_t bytes, uintptr_t &base, OpRef &release) {
  const size_t most = most_bytes_of(pool);
  if (!most) return true;
  std::lock_guard<std::mutex> hold(limited().mutex);
  size_t &taken = limited().taken[pool];
  if (taken + bytes <= most) {
    taken += bytes;
    return true;
  }
  for (const auto &released : limited().released) {
    if (released->pool != pool || released->handed_on || released->bytes < bytes) continue;
    released->handed_on = true;
    base = released->base;
    release = released->release;
    return true;
  }
  return false;
}

CUresult allocate_in_stream(CUdeviceptr *result, size_t bytes, CUmemoryPool pool, CUstream handle, bool per_thread) {
  if (!result) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  CUresult r = find_stream(handle, per_thread, stream);
  if (r == CUDA_SUCCESS) r = legacy_call(stream);
  if (r != CUDA_SUCCESS) return r;
  if (is_capturing(stream)) return whole_context_call(stream->context);
  uintptr_t base = 0;
  OpRef release;
  if (!take_from_pool(pool, bytes, base, release)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (release) {
    submit(stream, make_op(Op::Kind::marker), {release});
    *result = base;
    return CUDA_SUCCESS;
  }
  r = allocate(stream->context, bytes, Memory::device, 0, base, pool);
  if (r != CUDA_SUCCESS) return r;
  submit(stream, make_op(Op::Kind::marker));
  *result = base;
  return CUDA_SUCCESS;
}

CUresult free_in_stream(CUdeviceptr address, CUstream handle, bool per_thread) {
  StreamRef stream;
  CUresult r = find_stream(handle, per_thread, stream);
  if (r == CUDA_SUCCESS) r = legacy_call(stream);
  if (r != CUDA_SUCCESS) return r;
  if (is_capturing(stream)) return whole_context_call(stream->context);
  Allocation a;
  if (!find_allocation(address, a) || a.base != address || a.kind != Memory::device) return CUDA_ERROR_INVALID_VALUE;
  auto released = std::make_shared<Released>(Released{address, a.bytes, a.pool, nullptr});
  released->release = make_op(Op::Kind::work, [released] {
    std::lock_guard<std::mutex> hold(limited().mutex);
    limited().released.remove(released);
    released->release = nullptr;
    if (released->handed_on) return;
    Allocation gone;
    if (!remove_allocation(released->base, gone)) return;
    auto taken = limited().taken.find(released->pool);
    if (taken != limited().taken.end()) taken->second -= std::min(taken->second, gone.bytes);
    give_back(gone);
  });
  const OpRef release = released->release;
  {
    std::lock_guard<std::mutex> hold(limited().mutex);
    limited().released.push_back(released);
  }
  submit(stream, release);
  return CUDA_SUCCESS;
}

bool is_pinned(Memory kind) { return kind == Memory::host || kind == Memory::registered; }

CUresult pointer_attribute(void *data, CUpointer_attribute attribute, uintptr_t address) {
  Allocation a;
  if (!data) return CUDA_ERROR_INVALID_VALUE;
  if (!find_allocation(address, a)) return CUDA_ERROR_INVALID_VALUE;
  auto put = [data](auto value) {
    memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
  };
  switch (static_cast<int>(attribute)) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return put(handle_of<CUcontext>(a.context));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put(static_cast<unsigned>(is_pinned(a.kind) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return put(static_cast<CUdeviceptr>(address));
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!is_pinned(a.kind) && a.kind != Memory::managed) return CUDA_ERROR_INVALID_VALUE;
      return put(reinterpret_cast<void *>(address));
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return put(static_cast<unsigned long long>(a.id));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return put(static_cast<unsigned>(a.kind == Memory::managed));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return put(0);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return put(static_cast<CUdeviceptr>(a.base));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return put(a.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED: return put(1u);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return put(0u);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return put(a.pool);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

// What is in a handle: another process of the same user finds the file by it.
struct MemoryHandle {
  char kind[8];
  int process, file;
  uint64_t bytes, id;
};
static_assert(sizeof(MemoryHandle) <= CU_IPC_HANDLE_SIZE);
constexpr char kMemoryHandle[8] = "lgsimem";

CUresult open_memory(CUdeviceptr *result, const CUipcMemHandle &from, unsigned flags) {
  MemoryHandle handle;
  memcpy(&handle, &from, sizeof handle);
  if (!result || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || memcmp(handle.kind, kMemoryHandle, sizeof kMemoryHandle) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  NEED_CONTEXT(context);
  if (handle.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  const std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return CUDA_ERROR_MAP_FAILED;
  void *const at = mmap(nullptr, handle.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (at == MAP_FAILED) return CUDA_ERROR_MAP_FAILED;
  const auto base = reinterpret_cast<uintptr_t>(at);
  add_allocation({base, handle.bytes, Memory::opened, flags, context, 0});
  *result = base;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr) {
  ENTER();
  if (!pHandle) return CUDA_ERROR_INVALID_VALUE;
  Allocation a;
  if (!share_allocation(dptr, a)) return CUDA_ERROR_INVALID_VALUE;
  MemoryHandle handle{{}, getpid(), a.file, a.bytes, a.id};
  memcpy(handle.kind, kMemoryHandle, sizeof kMemoryHandle);
  *pHandle = {};
  memcpy(pHandle, &handle, sizeof handle);
  return CUDA_SUCCESS;
}
CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags) {
  ENTER();
  return open_memory(pdptr, handle, Flags);
}
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags) {
  ENTER();
  return open_memory(pdptr, handle, Flags);
}
CUresult cuIpcCloseMemHandle(CUdeviceptr dptr) {
  ENTER();
  return release(dptr, CUDA_ERROR_INVALID_VALUE, [](Memory kind) { return kind == Memory::opened; });
}
CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  ENTER();
  if (!free || !total) return CUDA_ERROR_INVALID_VALUE;
  NEED_CONTEXT(context);
  *total = kDeviceBytes;
  *free = free_device_bytes();
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
  ENTER();
  return allocate_device(dptr, bytesize);
}
CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height, unsigned int ElementSizeBytes) {
  ENTER();
  if (!pPitch || (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16)) return CUDA_ERROR_INVALID_VALUE;
  const size_t pitch = (WidthInBytes + 511) / 512 * 512;
  CUresult r = allocate_device(dptr, pitch * Height);
  if (r == CUDA_SUCCESS) *pPitch = pitch;
  return r;
}
CUresult cuMemFree_v2(CUdeviceptr dptr) {
  ENTER();
  if (!dptr) return CUDA_SUCCESS;
  return release(dptr, CUDA_ERROR_INVALID_VALUE, [](Memory kind) { return kind == Memory::device || kind == Memory::managed; });
}
CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr) {
  ENTER();
  NEED_CONTEXT(context);
  Allocation a;
  if (!find_allocation(dptr, a)) return CUDA_ERROR_NOT_FOUND;
  if (pbase) *pbase = a.base;
  if (psize) *psize = a.bytes;
  return CUDA_SUCCESS;
}
CUresult cuMemAllocHost_v2(void **pp, size_t bytesize) {
  ENTER();
  return allocate_host(pp, bytesize, 0);
}
CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags) {
  ENTER();
  return allocate_host(pp, bytesize, Flags);
}
CUresult cuMemFreeHost(void *p) {
  ENTER();
  return release(reinterpret_cast<uintptr_t>(p), CUDA_ERROR_INVALID_VALUE, [](Memory kind) { return kind == Memory::host; });
}
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags) {
  ENTER();
  if (!pdptr || Flags) return CUDA_ERROR_INVALID_VALUE;
  NEED_CONTEXT(context);
  Allocation a;
  if (!find_allocation(reinterpret_cast<uintptr_t>(p), a) || !is_pinned(a.kind)) return CUDA_ERROR_INVALID_VALUE;
  *pdptr = reinterpret_cast<CUdeviceptr>(p);
  return CUDA_SUCCESS;
}
CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p) {
  ENTER();
  Allocation a;
  if (!pFlags || !find_allocation(reinterpret_cast<uintptr_t>(p), a) || !is_pinned(a.kind)) return CUDA_ERROR_INVALID_VALUE;
  *pFlags = a.flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}
CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags) {
  ENTER();
  if (!dptr || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) return CUDA_ERROR_INVALID_VALUE;
  uintptr_t base = 0;
  CUresult r = allocate_now(bytesize, Memory::managed, flags, base);
  if (r == CUDA_SUCCESS) *dptr = base;
  return r;
}
CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags) {
  ENTER();
  if (!p || !bytesize) return CUDA_ERROR_INVALID_VALUE;
  NEED_CONTEXT(context);
  Alone hold(context->api_lock);
  Allocation a;
  const auto base = reinterpret_cast<uintptr_t>(p);
  if (find_allocation(base, a) || find_allocation(base + bytesize - 1, a)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  add_allocation({base, bytesize, Memory::registered, Flags, context, 0});
  return CUDA_SUCCESS;
}
CUresult cuMemHostUnregister(void *p) {
  ENTER();
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  return release(reinterpret_cast<uintptr_t>(p), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
                 [](Memory kind) { return kind == Memory::registered; });
}
CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
  ENTER();
  return allocate_in_stream(dptr, bytesize, current_pool(), hStream, false);
}
CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
  ENTER();
  return allocate_in_stream(dptr, bytesize, current_pool(), hStream, true);
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
  ENTER();
  if (check_pool(pool) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  return allocate_in_stream(dptr, bytesize, pool, hStream, false);
}
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
  ENTER();
  if (check_pool(pool) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  return allocate_in_stream(dptr, bytesize, pool, hStream, true);
}
CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  ENTER();
  return free_in_stream(dptr, hStream, false);
}
CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream) {
  ENTER();
  return free_in_stream(dptr, hStream, true);
}
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  ENTER();
  return pointer_attribute(data, attribute, ptr);
}
CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr) {
  ENTER();
  if (!numAttributes || !attributes || !data) return CUDA_ERROR_INVALID_VALUE;
  Allocation a;
  for (unsigned i = 0; i < numAttributes; i++) {
    // A pointer the driver does not know answers zeros, not an error.
    if (!find_allocation(ptr, a)) {
      unsigned zero = 0;
      if (data[i]) memcpy(data[i], &zero, sizeof zero);
      continue;
    }
    CUresult r = pointer_attribute(data[i], attributes[i], ptr);
    if (r != CUDA_SUCCESS && attributes[i] != CU_POINTER_ATTRIBUTE_HOST_POINTER) return r;
  }
  return CUDA_SUCCESS;
}
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr) {
  ENTER();
  Allocation a;
  if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !find_allocation(ptr, a)) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}
