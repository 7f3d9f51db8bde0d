// Initialisation, the driver's version, and the one device: an H200 by its figures.
#include <cstring>
#include <string>

#include "coredump.hpp"
#include "entry.hpp"
#include "loading.hpp"
#include "memory.hpp"
#include "settings.hpp"

using namespace lgsim;

namespace {

constexpr char kName[] = "Simulated H200";
constexpr char kBusId[] = "0000:01:00.0";
constexpr unsigned char kUuid[16] = {'L', 'G', 'S', 'I', 'M', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

int attribute(CUdevice_attribute which) {
  switch (static_cast<int>(which)) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y: return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return 48 * 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return 227 * 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return 228 * 1024;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: return 1024;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH: return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: return 65536;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: return 65536;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return 1980000;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return 3201000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return 6144;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return 60 << 20;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: return 512;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT: return 32;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return static_cast<int>(kMultiprocessors);
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return static_cast<int>(kThreadsPerMultiprocessor);
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return static_cast<int>(kBlocksPerMultiprocessor);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return 9;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return 0;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return 3;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return 1;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: return 1;
    default: return 0;
  }
}

CUresult total_memory(size_t *bytes, CUdevice device) {
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = kDeviceBytes;
  return CUDA_SUCCESS;
}

CUresult uuid(CUuuid *result, CUdevice device) {
  if (!result) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  memcpy(result->bytes, kUuid, sizeof kUuid);
  return CUDA_SUCCESS;
}

CUresult put_string(const char *text, char *result, int length, CUdevice device) {
  if (!result || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  strncpy(result, text, static_cast<size_t>(length));
  result[length - 1] = 0;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuInit(unsigned int Flags) {
  ENTER_BEFORE_INIT();
  if (Flags) return CUDA_ERROR_INVALID_VALUE;
  if (is_forked_child()) return CUDA_ERROR_NOT_INITIALIZED;
  if (is_initialised()) return CUDA_SUCCESS;
  read_loading_mode();
  read_coredump_variables();
  initialised();
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *driverVersion) {
  ENTER_BEFORE_INIT();
  if (!driverVersion) return CUDA_ERROR_INVALID_VALUE;
  *driverVersion = settings().driver_version;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER();
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int *count) {
  ENTER();
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char *name, int len, CUdevice dev) {
  ENTER();
  return put_string(kName, name, len, dev);
}
CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev) {
  ENTER();
  return put_string(kBusId, pciBusId, len, dev);
}
CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId) {
  ENTER();
  if (!dev || !pciBusId) return CUDA_ERROR_INVALID_VALUE;
  if (strcmp(pciBusId, kBusId)) return CUDA_ERROR_INVALID_DEVICE;
  *dev = 0;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid(CUuuid *result, CUdevice dev) {
  ENTER();
  return uuid(result, dev);
}
CUresult cuDeviceGetUuid_v2(CUuuid *result, CUdevice dev) {
  ENTER();
  return uuid(result, dev);
}
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev) {
  ENTER();
  return total_memory(bytes, dev);
}
CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev) {
  ENTER();
  if (!pi || attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
  *pi = attribute(attrib);
  return CUDA_SUCCESS;
}
CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev) {
  ENTER();
  if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
  *major = 9;
  *minor = 0;
  return CUDA_SUCCESS;
}
CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev) {
  ENTER();
  if (!canAccessPeer) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(dev) || !is_device(peerDev)) return CUDA_ERROR_INVALID_DEVICE;
  *canAccessPeer = 0;
  return CUDA_SUCCESS;
}
