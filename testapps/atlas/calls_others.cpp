// Tensor maps, logs, core dumps, checkpoints; and what is not called, with the reason.
#include <unistd.h>

#include "atlas.hpp"

namespace atlas {
namespace {

alignas(64) CUtensorMap tensor_map;

CUresult encode_tiled(Bench &b) {
  static const cuuint64_t dimensions[2] = {256, 256}, strides[1] = {1024};
  static const cuuint32_t box[2] = {64, 64}, steps[2] = {1, 1};
  return cuTensorMapEncodeTiled(&tensor_map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, reinterpret_cast<void *>(b.buffer), dimensions, strides,
                                box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

CUresult encode_im2col(Bench &b) {
  static const cuuint64_t dimensions[4] = {16, 32, 32, 4}, strides[3] = {64, 64 * 32, 64 * 32 * 32};
  static const int lower[2] = {0, 0}, upper[2] = {0, 0};
  static const cuuint32_t steps[4] = {1, 1, 1, 1};
  return cuTensorMapEncodeIm2col(&tensor_map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, reinterpret_cast<void *>(b.buffer), dimensions, strides,
                                 lower, upper, 16, 32, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                 CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

void CUDA_CB on_log(void *, CUlogLevel, char *, size_t) {}

CUresult log_to_memory() {
  *out<size_t>() = k4K;
  static char text[k4K];
  *out<CUlogIterator>() = 0;
  return cuLogsDumpToMemory(out<CUlogIterator>(), text, out<size_t>(), 0);
}

void leave_out(const char *reason, std::initializer_list<const char *> functions) {
  for (const char *function : functions) not_called().push_back({function, reason});
}

}  // namespace

void other_calls() {
  CALL(cuTensorMapEncodeTiled, "-", NOTHING, encode_tiled(b));
  CALL(cuTensorMapEncodeIm2col, "-", NOTHING, encode_im2col(b));
  CALL(cuTensorMapReplaceAddress, "-", (must(encode_tiled(b))),
       cuTensorMapReplaceAddress(&tensor_map, reinterpret_cast<void *>(b.buffer + k1M)));
  CALL(cuLogsRegisterCallback, "-", NOTHING, cuLogsRegisterCallback(on_log, nullptr, out<CUlogsCallbackHandle>()));
  CALL(cuLogsUnregisterCallback, "-", (must(cuLogsRegisterCallback(on_log, nullptr, out<CUlogsCallbackHandle>()))),
       cuLogsUnregisterCallback(*out<CUlogsCallbackHandle>()));
  CALL(cuLogsCurrent, "-", NOTHING, cuLogsCurrent(out<CUlogIterator>(), 0));
  CALL(cuLogsDumpToFile, "-", (*out<CUlogIterator>() = 0), cuLogsDumpToFile(out<CUlogIterator>(), "/dev/null", 0));
  CALL(cuLogsDumpToMemory, "-", NOTHING, log_to_memory());
  CALL(cuCoredumpGetAttribute, "-", (*out<size_t>() = sizeof(bool)),
       cuCoredumpGetAttribute(CU_COREDUMP_ENABLE_ON_EXCEPTION, out<bool>(), out<size_t>()));
  CALL(cuCoredumpGetAttributeGlobal, "-", (*out<size_t>() = sizeof(bool)),
       cuCoredumpGetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, out<bool>(), out<size_t>()));
  CALL(cuCoredumpSetAttribute, "-", (*out<size_t>() = sizeof(bool)),
       cuCoredumpSetAttribute(CU_COREDUMP_ENABLE_ON_EXCEPTION, out<bool>(), out<size_t>()));
  CALL(cuCoredumpSetAttributeGlobal, "-", (*out<size_t>() = sizeof(bool)),
       cuCoredumpSetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, out<bool>(), out<size_t>()));
  CALL(cuCheckpointProcessGetState, "-", NOTHING, cuCheckpointProcessGetState(getpid(), out<CUprocessState>()));
  CALL(cuCheckpointProcessGetRestoreThreadId, "-", NOTHING, cuCheckpointProcessGetRestoreThreadId(getpid(), out<int>()));
}

void calls_left_out() {
  leave_out("needs a graphics library",
            {"cuGraphicsUnregisterResource", "cuGraphicsSubResourceGetMappedArray", "cuGraphicsResourceGetMappedMipmappedArray",
             "cuGraphicsResourceGetMappedPointer", "cuGraphicsResourceSetMapFlags", "cuGraphicsMapResources", "cuGraphicsUnmapResources"});
  leave_out("needs an object that another interface exports",
            {"cuImportExternalMemory", "cuExternalMemoryGetMappedBuffer", "cuExternalMemoryGetMappedMipmappedArray",
             "cuDestroyExternalMemory", "cuImportExternalSemaphore", "cuSignalExternalSemaphoresAsync", "cuWaitExternalSemaphoresAsync",
             "cuDestroyExternalSemaphore", "cuGraphAddExternalSemaphoresSignalNode", "cuGraphExternalSemaphoresSignalNodeGetParams",
             "cuGraphExternalSemaphoresSignalNodeSetParams", "cuGraphAddExternalSemaphoresWaitNode",
             "cuGraphExternalSemaphoresWaitNodeGetParams", "cuGraphExternalSemaphoresWaitNodeSetParams",
             "cuGraphExecExternalSemaphoresSignalNodeSetParams", "cuGraphExecExternalSemaphoresWaitNodeSetParams",
             "cuDeviceGetNvSciSyncAttributes"});
  leave_out("multicast needs several cards and changes what they share",
            {"cuMulticastCreate", "cuMulticastAddDevice", "cuMulticastBindMem", "cuMulticastBindAddr", "cuMulticastUnbind",
             "cuMulticastGetGranularity"});
  leave_out("stops a process, or brings one back",
            {"cuCheckpointProcessLock", "cuCheckpointProcessCheckpoint", "cuCheckpointProcessRestore", "cuCheckpointProcessUnlock"});
  leave_out("needs hardware that decompresses", {"cuMemBatchDecompressAsync"});
  leave_out("needs a card of compute capability 10", {"cuTensorMapEncodeIm2colWide"});
  leave_out("needs a surface reference, which no compiler makes any more", {"cuSurfRefSetArray", "cuSurfRefGetArray"});
}

}  // namespace atlas
