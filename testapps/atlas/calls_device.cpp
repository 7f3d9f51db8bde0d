// The device and the driver themselves, and what is asked of pointers.
#include "atlas.hpp"

namespace atlas {
namespace {

void async_notification(CUasyncNotificationInfo *, void *, CUasyncCallbackHandle) {}

const CUatomicOperation kAtomic = CU_ATOMIC_OPERATION_INTEGER_ADD;

char *bus_id(Bench &b) {
  must(cuDeviceGetPCIBusId(out<char>(), 64, b.device));
  return out<char>();
}

}  // namespace

void device_calls() {
  CALL(cuGetErrorString, "-", NOTHING, cuGetErrorString(CUDA_SUCCESS, out<const char *>()));
  CALL(cuGetErrorName, "-", NOTHING, cuGetErrorName(CUDA_SUCCESS, out<const char *>()));
  CALL(cuInit, "-", NOTHING, cuInit(0));
  CALL(cuDriverGetVersion, "-", NOTHING, cuDriverGetVersion(out<int>()));
  CALL(cuGetProcAddress, "-", NOTHING, cuGetProcAddress("cuMemAlloc", out<void *>(), 12000, 0, out<CUdriverProcAddressQueryResult>()));
  CALL(cuDeviceGet, "-", NOTHING, cuDeviceGet(out<CUdevice>(), 0));
  CALL(cuDeviceGetCount, "-", NOTHING, cuDeviceGetCount(out<int>()));
  CALL(cuDeviceGetName, "-", NOTHING, cuDeviceGetName(out<char>(), 64, b.device));
  CALL(cuDeviceGetUuid, "-", NOTHING, cuDeviceGetUuid(out<CUuuid>(), b.device));
  CALL(cuDeviceGetLuid, "-", NOTHING, cuDeviceGetLuid(out<char>(), out<unsigned>(), b.device));
  CALL(cuDeviceTotalMem, "-", NOTHING, cuDeviceTotalMem(out<size_t>(), b.device));
  CALL(cuDeviceGetTexture1DLinearMaxWidth, "-", NOTHING, cuDeviceGetTexture1DLinearMaxWidth(out<size_t>(), CU_AD_FORMAT_FLOAT, 1, b.device));
  CALL(cuDeviceGetAttribute, "-", NOTHING, cuDeviceGetAttribute(out<int>(), CU_DEVICE_ATTRIBUTE_WARP_SIZE, b.device));
  CALL(cuDeviceGetHostAtomicCapabilities, "-", NOTHING, cuDeviceGetHostAtomicCapabilities(out<unsigned>(), &kAtomic, 1, b.device));
  CALL_ONCE(cuDeviceSetMemPool, "-", b.new_pool(), cuDeviceSetMemPool(b.device, b.pool));
  CALL(cuDeviceGetMemPool, "-", NOTHING, cuDeviceGetMemPool(out<CUmemoryPool>(), b.device));
  CALL(cuDeviceGetDefaultMemPool, "-", NOTHING, cuDeviceGetDefaultMemPool(out<CUmemoryPool>(), b.device));
  CALL(cuDeviceGetExecAffinitySupport, "-", NOTHING, cuDeviceGetExecAffinitySupport(out<int>(), CU_EXEC_AFFINITY_TYPE_SM_COUNT, b.device));
  CALL(cuFlushGPUDirectRDMAWrites, "-", NOTHING,
       cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
  CALL(cuDeviceGetProperties, "-", NOTHING, cuDeviceGetProperties(out<CUdevprop>(), b.device));
  CALL(cuDeviceComputeCapability, "-", NOTHING, cuDeviceComputeCapability(out<int>(), out<int>() + 1, b.device));
  CALL(cuDeviceGetPCIBusId, "-", NOTHING, cuDeviceGetPCIBusId(out<char>(), 64, b.device));
  CALL(cuDeviceGetByPCIBusId, "-", bus_id(b), cuDeviceGetByPCIBusId(out<CUdevice>(), out<char>()));
  CALL(cuDeviceRegisterAsyncNotification, "-", NOTHING,
       cuDeviceRegisterAsyncNotification(b.device, async_notification, nullptr, out<CUasyncCallbackHandle>()));
  CALL(cuDeviceUnregisterAsyncNotification, "-",
       (must(cuDeviceRegisterAsyncNotification(b.device, async_notification, nullptr, out<CUasyncCallbackHandle>()))),
       cuDeviceUnregisterAsyncNotification(b.device, *out<CUasyncCallbackHandle>()));
  CALL_ONCE(cuDeviceGraphMemTrim, "-", NOTHING, cuDeviceGraphMemTrim(b.device));
  CALL(cuDeviceGetGraphMemAttribute, "-", NOTHING,
       cuDeviceGetGraphMemAttribute(b.device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, out<unsigned long long>()));
  CALL(cuDeviceSetGraphMemAttribute, "-", (*out<unsigned long long>() = 0),
       cuDeviceSetGraphMemAttribute(b.device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, out<unsigned long long>()));
  CALL(cuDeviceCanAccessPeer, "-", NOTHING, cuDeviceCanAccessPeer(out<int>(), b.device, b.device));
  CALL(cuDeviceGetP2PAttribute, "-", NOTHING,
       cuDeviceGetP2PAttribute(out<int>(), CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, b.device, b.device));
  CALL(cuDeviceGetP2PAtomicCapabilities, "-", NOTHING, cuDeviceGetP2PAtomicCapabilities(out<unsigned>(), &kAtomic, 1, b.device, b.device));
  CALL(cuGetExportTable, "-", NOTHING, cuGetExportTable(const_cast<const void **>(out<void *>()), out<CUuuid>()));

  CALL(cuPointerGetAttribute, "-", NOTHING, cuPointerGetAttribute(out<unsigned>(), CU_POINTER_ATTRIBUTE_MEMORY_TYPE, b.buffer));
  CALL(cuPointerGetAttribute, "sync memops", NOTHING, cuPointerGetAttribute(out<unsigned>(), CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, b.buffer));
  CALL_ONCE(cuPointerSetAttribute, "-", (*out<unsigned>() = 1), cuPointerSetAttribute(out<unsigned>(), CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, b.buffer));
  CALL(cuPointerGetAttributes, "-", (*out<CUpointer_attribute>() = CU_POINTER_ATTRIBUTE_MEMORY_TYPE, *out<void *>() = out<unsigned>()),
       cuPointerGetAttributes(1, out<CUpointer_attribute>(), out<void *>(), b.buffer));
}

}  // namespace atlas
