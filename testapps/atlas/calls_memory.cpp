// Allocation, host memory, managed memory, pools, and memory of other processes.
#include "atlas.hpp"

namespace atlas {
namespace {

CUmemLocation here(const Bench &b) {
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = b.device;
  return location;
}

void host_memory(Bench &b) { must(cuMemHostAlloc(&b.host, k1M, 0)); }

void registered(Bench &b) { must(cuMemHostRegister(b.pageable.data(), k1M, 0)); }

void not_registered(Bench &b) { cuMemHostUnregister(b.pageable.data()); }

void managed(Bench &b) { must(cuMemAllocManaged(&b.memory, k2M, CU_MEM_ATTACH_GLOBAL)); }

void from_stream(Bench &b) {
  must(cuMemAllocAsync(&b.memory, k1M, b.idle));
  must(cuStreamSynchronize(b.idle));
}

void from_pool(Bench &b) {
  b.new_pool();
  must(cuMemAllocFromPoolAsync(&b.memory, k1M, b.pool, b.idle));
  must(cuStreamSynchronize(b.idle));
}

// What the pool keeps, so that there is something to trim.
void pool_that_keeps(Bench &b) {
  unsigned long long all = ~0ull;
  from_pool(b);
  must(cuMemPoolSetAttribute(b.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
  must(cuMemFreeAsync(b.memory, b.idle));
}

CUmemAccessDesc access(const Bench &b) {
  CUmemAccessDesc d{};
  d.location = here(b);
  d.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return d;
}

CUresult new_pool(Bench &b) {
  CUmemPoolProps p{};
  p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location = here(b);
  return cuMemPoolCreate(&b.pool, &p);
}

CUresult export_pool(Bench &b) {
  return cuMemPoolExportToShareableHandle(&b.descriptor, b.pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

CUresult import_pool(Bench &b) {
  return cuMemPoolImportFromShareableHandle(out<CUmemoryPool>(), reinterpret_cast<void *>(static_cast<size_t>(b.descriptor)),
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

void shared_pool(Bench &b) {
  from_pool(b);
  must(export_pool(b));
}

CUdeviceptr *managed_list(Bench &b) {
  *out<CUdeviceptr>() = b.memory;
  return out<CUdeviceptr>();
}

size_t *size_list() {
  *out<size_t>() = k2M;
  return out<size_t>();
}

CUmemLocation *location_list(Bench &b) {
  *out<CUmemLocation>() = here(b);
  return out<CUmemLocation>();
}

CUresult range_attributes(Bench &b) {
  *out<void *>() = out<int>();
  *out<size_t>() = sizeof(int);
  *out<CUmem_range_attribute>() = CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
  return cuMemRangeGetAttributes(out<void *>(), out<size_t>(), out<CUmem_range_attribute>(), 1, b.memory, k2M);
}

void opened(Bench &b) {
  b.import_from_other_process();
  must(cuIpcOpenMemHandle(&b.memory, b.memory_handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

void own_event(Bench &b) { must(cuEventCreate(&b.event2, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)); }

size_t zero_lists[1] = {0};

}  // namespace

void memory_calls() {
  CALL(cuMemGetInfo, "-", NOTHING, cuMemGetInfo(out<size_t>(), out<size_t>() + 1));
  CALL(cuMemAlloc, "-", NOTHING, cuMemAlloc(&b.memory, k4K));
  CALL_ONCE(cuMemAlloc, "512M", NOTHING, cuMemAlloc(&b.memory, 512 * k1M));
  CALL(cuMemAllocPitch, "-", NOTHING, cuMemAllocPitch(&b.memory, out<size_t>(), 1000, 100, 4));
  CALL(cuMemFree, "-", b.allocate(k4K), cuMemFree(b.memory));
  CALL(cuMemFree, "null", NOTHING, cuMemFree(0));
  CALL(cuMemFree, "managed", managed(b), cuMemFree(b.memory));
  CALL(cuMemFree, "from a stream", from_stream(b), cuMemFree(b.memory));
  CALL(cuMemGetAddressRange, "-", NOTHING, cuMemGetAddressRange(out<CUdeviceptr>(), out<size_t>(), b.buffer + k4K));
  CALL(cuMemAllocHost, "-", NOTHING, cuMemAllocHost(&b.host, k1M));
  CALL(cuMemFreeHost, "-", host_memory(b), cuMemFreeHost(b.host));
  CALL(cuMemHostAlloc, "-", NOTHING, cuMemHostAlloc(&b.host, k1M, 0));
  CALL_ONCE(cuMemHostAlloc, "64M", NOTHING, cuMemHostAlloc(&b.host, 64 * k1M, 0));
  CALL(cuMemHostGetDevicePointer, "-", NOTHING, cuMemHostGetDevicePointer(out<CUdeviceptr>(), b.pinned, 0));
  CALL(cuMemHostGetFlags, "-", NOTHING, cuMemHostGetFlags(out<unsigned>(), b.pinned));
  CALL_ONCE(cuMemAllocManaged, "-", NOTHING, cuMemAllocManaged(&b.memory, k1M, CU_MEM_ATTACH_GLOBAL));
  CALL(cuMemHostRegister, "-", not_registered(b), cuMemHostRegister(b.pageable.data(), k1M, 0));
  CALL(cuMemHostUnregister, "-", (not_registered(b), registered(b)), cuMemHostUnregister(b.pageable.data()));

  CALL_ONCE(cuMemAllocAsync, "-", NOTHING, cuMemAllocAsync(&b.memory, 8 * k1M, b.idle));
  CALL_ONCE(cuMemAllocAsync, "busy", NOTHING, cuMemAllocAsync(&b.memory, 8 * k1M, b.busy));
  CALL(cuMemFreeAsync, "-", from_stream(b), cuMemFreeAsync(b.memory, b.idle));
  CALL(cuMemFreeAsync, "busy", from_stream(b), cuMemFreeAsync(b.memory, b.busy));
  CALL_ONCE(cuMemAllocFromPoolAsync, "-", b.new_pool(), cuMemAllocFromPoolAsync(&b.memory, k1M, b.pool, b.idle));
  CALL_ONCE(cuMemPoolTrimTo, "-", pool_that_keeps(b), cuMemPoolTrimTo(b.pool, 0));
  CALL(cuMemPoolSetAttribute, "-", (b.new_pool(), b.word = 0), cuMemPoolSetAttribute(b.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &b.word));
  CALL(cuMemPoolGetAttribute, "-", b.new_pool(), cuMemPoolGetAttribute(b.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &b.word));
  CALL(cuMemPoolSetAccess, "-", b.new_pool(), cuMemPoolSetAccess(b.pool, kept(access(b)), 1));
  CALL(cuMemPoolGetAccess, "-", b.new_pool(), cuMemPoolGetAccess(out<CUmemAccess_flags>(), b.pool, location_list(b)));
  CALL(cuMemPoolCreate, "-", NOTHING, new_pool(b));
  CALL(cuMemPoolDestroy, "-", b.new_pool(), cuMemPoolDestroy(b.pool));
  CALL(cuMemPoolDestroy, "used", pool_that_keeps(b), cuMemPoolDestroy(b.pool));
  CALL(cuMemGetDefaultMemPool, "-", NOTHING, cuMemGetDefaultMemPool(out<CUmemoryPool>(), location_list(b), CU_MEM_ALLOCATION_TYPE_PINNED));
  CALL(cuMemGetMemPool, "-", NOTHING, cuMemGetMemPool(out<CUmemoryPool>(), location_list(b), CU_MEM_ALLOCATION_TYPE_PINNED));
  CALL_ONCE(cuMemSetMemPool, "-", b.new_pool(), cuMemSetMemPool(location_list(b), CU_MEM_ALLOCATION_TYPE_PINNED, b.pool));
  CALL(cuMemPoolExportToShareableHandle, "-", b.new_pool(), export_pool(b));
  CALL(cuMemPoolImportFromShareableHandle, "-", shared_pool(b), import_pool(b));
  CALL(cuMemPoolExportPointer, "-", shared_pool(b), cuMemPoolExportPointer(out<CUmemPoolPtrExportData>(), b.memory));
  CALL(cuMemPoolImportPointer, "-",
       (shared_pool(b), must(import_pool(b)), must(cuMemPoolExportPointer(out<CUmemPoolPtrExportData>(), b.memory))),
       cuMemPoolImportPointer(out<CUdeviceptr>(), *out<CUmemoryPool>(), out<CUmemPoolPtrExportData>()));

  CALL_ONCE(cuMemPrefetchAsync, "-", managed(b), cuMemPrefetchAsync(b.memory, k2M, here(b), 0, b.idle));
  CALL(cuMemPrefetchAsync, "busy", managed(b), cuMemPrefetchAsync(b.memory, k2M, here(b), 0, b.busy));
  CALL(cuMemAdvise, "-", managed(b), cuMemAdvise(b.memory, k2M, CU_MEM_ADVISE_SET_READ_MOSTLY, here(b)));
  CALL(cuMemPrefetchBatchAsync, "-", managed(b),
       cuMemPrefetchBatchAsync(managed_list(b), size_list(), 1, location_list(b), zero_lists, 1, 0, b.idle));
  CALL(cuMemDiscardBatchAsync, "-", managed(b), cuMemDiscardBatchAsync(managed_list(b), size_list(), 1, 0, b.idle));
  CALL(cuMemDiscardAndPrefetchBatchAsync, "-", managed(b),
       cuMemDiscardAndPrefetchBatchAsync(managed_list(b), size_list(), 1, location_list(b), zero_lists, 1, 0, b.idle));
  CALL(cuMemRangeGetAttribute, "-", managed(b),
       cuMemRangeGetAttribute(out<int>(), sizeof(int), CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, b.memory, k2M));
  CALL(cuMemRangeGetAttributes, "-", managed(b), range_attributes(b));

  CALL(cuIpcGetEventHandle, "-", own_event(b), cuIpcGetEventHandle(&b.event_handle, b.event2));
  CALL_ONCE(cuIpcOpenEventHandle, "-", b.import_from_other_process(), cuIpcOpenEventHandle(&b.event2, b.event_handle));
  CALL(cuIpcGetMemHandle, "-", b.allocate(k2M), cuIpcGetMemHandle(&b.memory_handle, b.memory));
  CALL_ONCE(cuIpcOpenMemHandle, "-", b.import_from_other_process(),
       cuIpcOpenMemHandle(&b.memory, b.memory_handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  CALL(cuIpcCloseMemHandle, "-", opened(b), cuIpcCloseMemHandle(b.memory));
}

}  // namespace atlas
