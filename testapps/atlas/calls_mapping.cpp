// Virtual memory: addresses, physical memory, and the mapping of one to the other.
#include "atlas.hpp"

namespace atlas {
namespace {

CUmemAllocationProp on_device(const Bench &b) {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.location.id = b.device;
  return p;
}

CUmemAccessDesc access(const Bench &b, CUmemAccess_flags flags) {
  CUmemAccessDesc d{};
  d.location = on_device(b).location;
  d.flags = flags;
  return d;
}

void mapped(Bench &b) {
  b.map();
  b.allow_access();
}

CUresult export_memory(Bench &b) {
  return cuMemExportToShareableHandle(&b.descriptor, b.physical, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

void exported(Bench &b) {
  b.new_physical();
  must(export_memory(b));
}

CUmemAllocationProp *properties(const Bench &b) {
  *out<CUmemAllocationProp>() = on_device(b);
  return out<CUmemAllocationProp>();
}

// One tile of a sparse array.
CUarrayMapInfo *tile(Bench &b) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = shape.Height = 4096;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  shape.Flags = CUDA_ARRAY3D_SPARSE;
  must(cuArray3DCreate(&b.array, &shape));
  CUDA_ARRAY_SPARSE_PROPERTIES sparse;
  must(cuArrayGetSparseProperties(&sparse, b.array));
  CUmemAllocationProp p = on_device(b);
  p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  p.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
  must(cuMemCreate(&b.physical, k2M, &p, 0));
  CUarrayMapInfo info{};
  info.resourceType = CU_RESOURCE_TYPE_ARRAY;
  info.resource.array = b.array;
  info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
  info.subresource.sparseLevel.extentWidth = sparse.tileExtent.width;
  info.subresource.sparseLevel.extentHeight = sparse.tileExtent.height;
  info.subresource.sparseLevel.extentDepth = 1;
  info.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
  info.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
  info.memHandle.memHandle = b.physical;
  info.deviceBitMask = 1u << b.device;
  *out<CUarrayMapInfo>() = info;
  return out<CUarrayMapInfo>();
}

}  // namespace

void mapping_calls() {
  CALL(cuMemAddressReserve, "-", NOTHING, cuMemAddressReserve(&b.address, k2M, 0, 0, 0));
  CALL(cuMemAddressFree, "-", b.reserve(), cuMemAddressFree(b.address, k2M));
  CALL(cuMemCreate, "-", properties(b), cuMemCreate(&b.physical, k2M, out<CUmemAllocationProp>(), 0));
  CALL(cuMemRelease, "-", b.new_physical(), cuMemRelease(b.physical));
  CALL(cuMemRelease, "mapped before", (mapped(b), must(cuMemUnmap(b.address, k2M))), cuMemRelease(b.physical));
  CALL_ONCE(cuMemMap, "-", (b.new_physical(), b.reserve()), cuMemMap(b.address, k2M, 0, b.physical, 0));
  CALL(cuMemMapArrayAsync, "-", tile(b), cuMemMapArrayAsync(out<CUarrayMapInfo>(), 1, b.idle));
  CALL(cuMemUnmap, "-", mapped(b), cuMemUnmap(b.address, k2M));
  CALL(cuMemUnmap, "without access", b.map(), cuMemUnmap(b.address, k2M));
  CALL_ONCE(cuMemSetAccess, "-", b.map(), cuMemSetAccess(b.address, k2M, kept(access(b, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)), 1));
  CALL_ONCE(cuMemSetAccess, "taken away", mapped(b), cuMemSetAccess(b.address, k2M, kept(access(b, CU_MEM_ACCESS_FLAGS_PROT_NONE)), 1));
  CALL(cuMemGetAccess, "-", mapped(b), cuMemGetAccess(out<unsigned long long>(), kept(on_device(b).location), b.address));
  CALL(cuMemExportToShareableHandle, "-", b.new_physical(), export_memory(b));
  CALL(cuMemImportFromShareableHandle, "-", exported(b),
       cuMemImportFromShareableHandle(out<CUmemGenericAllocationHandle>(), reinterpret_cast<void *>(static_cast<size_t>(b.descriptor)),
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  CALL(cuMemGetAllocationGranularity, "-", properties(b),
       cuMemGetAllocationGranularity(out<size_t>(), out<CUmemAllocationProp>(), CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CALL(cuMemGetAllocationPropertiesFromHandle, "-", b.new_physical(),
       cuMemGetAllocationPropertiesFromHandle(out<CUmemAllocationProp>(), b.physical));
  CALL(cuMemRetainAllocationHandle, "-", mapped(b),
       cuMemRetainAllocationHandle(out<CUmemGenericAllocationHandle>(), reinterpret_cast<void *>(b.address)));
  CALL(cuMemGetHandleForAddressRange, "-", NOTHING,
       cuMemGetHandleForAddressRange(&b.descriptor, b.buffer, k2M, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
}

}  // namespace atlas
