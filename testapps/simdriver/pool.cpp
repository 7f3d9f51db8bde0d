// Memory pools, prefetching and advice, as far as programs depend on them: pools exist and keep what is set, and everything is
// resident already.
#include <cstring>

#include "capture.hpp"
#include "entry.hpp"
#include "memory.hpp"

namespace lgsim {

struct Pool : Object {
  static constexpr Type kType = Type::pool;
  Pool() : Object(kType) {}
  std::map<int, uint64_t> attributes;  // guarded by pools().mutex
  size_t most_bytes = 0;               // 0: no limit
};
using PoolRef = std::shared_ptr<Pool>;

namespace {

struct Pools {
  std::mutex mutex;
  PoolRef standard;  // the device's default pool
  PoolRef current;
};
Pools &pools() {
  static Pools *const p = [] {
    auto *made = new Pools;
    made->standard = made->current = std::make_shared<Pool>();
    registry().add(made->standard);
    return made;
  }();
  return *p;
}

CUresult find_pool(CUmemoryPool handle, PoolRef &pool) {
  pools();
  pool = registry().find<Pool>(handle);
  return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool is_int(CUmemPool_attribute attribute) {
  return attribute == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES || attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
         attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

CUresult in_stream(CUdeviceptr address, size_t bytes, CUstream handle, bool per_thread) {
  if (!device_reaches(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  CUresult r = find_stream(handle, per_thread, stream);
  if (r == CUDA_SUCCESS) r = legacy_call(stream);
  if (r != CUDA_SUCCESS) return r;
  Shared hold(stream->context.api_lock);
  submit(stream, make_op(Op::Kind::marker));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult check_pool(CUmemoryPool handle) {
  PoolRef pool;
  return find_pool(handle, pool);
}

size_t most_bytes_of(CUmemoryPool handle) {
  PoolRef pool;
  return find_pool(handle, pool) == CUDA_SUCCESS ? pool->most_bytes : 0;
}

CUmemoryPool current_pool() {
  std::lock_guard<std::mutex> hold(pools().mutex);
  return handle_of<CUmemoryPool>(pools().current);
}

}  // namespace lgsim

using namespace lgsim;

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev) {
  ENTER();
  if (!pool_out) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
  *pool_out = handle_of<CUmemoryPool>(pools().standard);
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev) {
  ENTER();
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
  *pool = current_pool();
  return CUDA_SUCCESS;
}
CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle) {
  ENTER();
  if (!is_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
  PoolRef pool;
  CUresult r = find_pool(handle, pool);
  if (r != CUDA_SUCCESS) return r;
  std::lock_guard<std::mutex> hold(pools().mutex);
  pools().current = pool;
  return CUDA_SUCCESS;
}
CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps) {
  ENTER();
  if (!pool || !poolProps || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  PoolRef made = std::make_shared<Pool>();
  made->most_bytes = poolProps->maxSize;
  registry().add(made);
  *pool = handle_of<CUmemoryPool>(made);
  return CUDA_SUCCESS;
}
CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  ENTER();
  PoolRef pool;
  CUresult r = find_pool(handle, pool);
  if (r != CUDA_SUCCESS) return r;
  std::lock_guard<std::mutex> hold(pools().mutex);
  if (pool == pools().standard) return CUDA_ERROR_INVALID_VALUE;
  if (pool == pools().current) pools().current = pools().standard;
  registry().remove<Pool>(handle);
  return CUDA_SUCCESS;
}
CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t) {
  ENTER();
  PoolRef pool;
  return find_pool(handle, pool);
}
CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value) {
  ENTER();
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  PoolRef pool;
  CUresult r = find_pool(handle, pool);
  if (r != CUDA_SUCCESS) return r;
  uint64_t kept = 0;
  memcpy(&kept, value, is_int(attr) ? sizeof(int) : sizeof(cuuint64_t));
  std::lock_guard<std::mutex> hold(pools().mutex);
  pool->attributes[attr] = kept;
  return CUDA_SUCCESS;
}
CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value) {
  ENTER();
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  PoolRef pool;
  CUresult r = find_pool(handle, pool);
  if (r != CUDA_SUCCESS) return r;
  std::lock_guard<std::mutex> hold(pools().mutex);
  auto it = pool->attributes.find(attr);
  const uint64_t kept = it == pool->attributes.end() ? (is_int(attr) ? 1 : 0) : it->second;
  memcpy(value, &kept, is_int(attr) ? sizeof(int) : sizeof(cuuint64_t));
  return CUDA_SUCCESS;
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise, CUdevice) {
  ENTER();
  return device_reaches(devPtr, count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise, CUmemLocation) {
  ENTER();
  return device_reaches(devPtr, count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice, CUstream hStream) {
  ENTER();
  return in_stream(devPtr, count, hStream, false);
}
CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr devPtr, size_t count, CUdevice, CUstream hStream) {
  ENTER();
  return in_stream(devPtr, count, hStream, true);
}
CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation, unsigned int, CUstream hStream) {
  ENTER();
  return in_stream(devPtr, count, hStream, false);
}
CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr devPtr, size_t count, CUmemLocation, unsigned int, CUstream hStream) {
  ENTER();
  return in_stream(devPtr, count, hStream, true);
}
