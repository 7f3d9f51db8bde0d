// Contexts, green contexts, limits and peers.
#include "atlas.hpp"

namespace atlas {
namespace {

CUresult create_context(Bench &b) {
  CUctxCreateParams p{};
  return cuCtxCreate(&b.context2, &p, 0, b.device);
}

void second_context(Bench &b) {
  must(create_context(b));
  CUcontext popped;
  must(cuCtxPopCurrent(&popped));
}

// On the second card, or, where there is one, on the same: the driver then refuses, and that is what is seen.
void peer_context(Bench &b) {
  int cards = 0;
  must(cuDeviceGetCount(&cards));
  CUctxCreateParams p{};
  must(cuCtxCreate(&b.context2, &p, 0, cards > 1 ? 1 : b.device));
  CUcontext popped;
  must(cuCtxPopCurrent(&popped));
}

CUresult push_and_pop(Bench &b) {
  const CUresult result = cuCtxPushCurrent(b.context);
  return result == CUDA_SUCCESS ? cuCtxPopCurrent(out<CUcontext>()) : result;
}

}  // namespace

void context_calls() {
  CALL(cuDevicePrimaryCtxRetain, "-", NOTHING, cuDevicePrimaryCtxRetain(&b.context2, b.device));
  CALL(cuDevicePrimaryCtxRelease, "-", (must(cuDevicePrimaryCtxRetain(&b.context2, b.device))), cuDevicePrimaryCtxRelease(b.device));
  CALL_ONCE(cuDevicePrimaryCtxRelease, "last", NOTHING, cuDevicePrimaryCtxRelease(b.device));
  CALL_ONCE(cuDevicePrimaryCtxReset, "-", NOTHING, cuDevicePrimaryCtxReset(b.device));
  CALL_ONCE(cuDevicePrimaryCtxSetFlags, "-", NOTHING, cuDevicePrimaryCtxSetFlags(b.device, CU_CTX_SCHED_AUTO));
  CALL_ONCE(cuDevicePrimaryCtxSetFlags, "other", NOTHING, cuDevicePrimaryCtxSetFlags(b.device, CU_CTX_SCHED_YIELD));
  CALL(cuDevicePrimaryCtxGetState, "-", NOTHING, cuDevicePrimaryCtxGetState(b.device, out<unsigned>(), out<int>()));
  CALL_ONCE(cuCtxCreate, "-", NOTHING, create_context(b));
  CALL(cuCtxDestroy, "-", second_context(b), cuCtxDestroy(b.context2));
  CALL(cuCtxPushCurrent, "-", NOTHING, cuCtxPushCurrent(b.context));
  CALL(cuCtxPopCurrent, "-", NOTHING, push_and_pop(b));
  CALL(cuCtxSetCurrent, "-", NOTHING, cuCtxSetCurrent(b.context));
  CALL(cuCtxGetCurrent, "-", NOTHING, cuCtxGetCurrent(out<CUcontext>()));
  CALL(cuCtxGetDevice, "-", NOTHING, cuCtxGetDevice(out<CUdevice>()));
  CALL(cuCtxGetFlags, "-", NOTHING, cuCtxGetFlags(out<unsigned>()));
  CALL_ONCE(cuCtxSetFlags, "-", NOTHING, cuCtxSetFlags(CU_CTX_SCHED_AUTO));
  CALL_ONCE(cuCtxSetFlags, "other", NOTHING, cuCtxSetFlags(CU_CTX_SCHED_YIELD));
  CALL_ONCE(cuCtxSetFlags, "sync memops", NOTHING, cuCtxSetFlags(CU_CTX_SYNC_MEMOPS));
  CALL(cuCtxGetId, "-", NOTHING, cuCtxGetId(b.context, out<unsigned long long>()));
  CALL(cuCtxSynchronize, "-", NOTHING, cuCtxSynchronize());
  CALL_ONCE(cuCtxSetLimit, "stack", (must(cuCtxGetLimit(out<size_t>(), CU_LIMIT_STACK_SIZE))),
       cuCtxSetLimit(CU_LIMIT_STACK_SIZE, *out<size_t>() + 2048));
  CALL_ONCE(cuCtxSetLimit, "printf", NOTHING, cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 2 * k1M));
  CALL_ONCE(cuCtxSetLimit, "heap", NOTHING, cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, k16M));
  CALL(cuCtxGetLimit, "-", NOTHING, cuCtxGetLimit(out<size_t>(), CU_LIMIT_STACK_SIZE));
  CALL(cuCtxGetCacheConfig, "-", NOTHING, cuCtxGetCacheConfig(out<CUfunc_cache>()));
  CALL_ONCE(cuCtxSetCacheConfig, "-", NOTHING, cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
  CALL(cuCtxGetApiVersion, "-", NOTHING, cuCtxGetApiVersion(b.context, out<unsigned>()));
  CALL(cuCtxGetStreamPriorityRange, "-", NOTHING, cuCtxGetStreamPriorityRange(out<int>(), out<int>() + 1));
  CALL_ONCE(cuCtxResetPersistingL2Cache, "-", NOTHING, cuCtxResetPersistingL2Cache());
  CALL(cuCtxRecordEvent, "-", NOTHING, cuCtxRecordEvent(b.context, b.event));
  CALL(cuCtxWaitEvent, "-", NOTHING, cuCtxWaitEvent(b.context, b.event));
  CALL(cuCtxGetSharedMemConfig, "-", NOTHING, cuCtxGetSharedMemConfig(out<CUsharedconfig>()));
  CALL(cuCtxSetSharedMemConfig, "-", NOTHING, cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE));
  CALL(cuCtxGetExecAffinity, "-", NOTHING, cuCtxGetExecAffinity(out<CUexecAffinityParam>(), CU_EXEC_AFFINITY_TYPE_SM_COUNT));
  CALL(cuCtxAttach, "-", NOTHING, cuCtxAttach(out<CUcontext>(), 0));
  CALL(cuCtxDetach, "-", (must(cuCtxAttach(&b.context2, 0))), cuCtxDetach(b.context2));
  CALL_ONCE(cuCtxEnablePeerAccess, "-", peer_context(b), cuCtxEnablePeerAccess(b.context2, 0));
  CALL(cuCtxDisablePeerAccess, "-", (peer_context(b), must(cuCtxEnablePeerAccess(b.context2, 0))), cuCtxDisablePeerAccess(b.context2));

  CALL_ONCE(cuGreenCtxCreate, "-", b.new_green(), cuGreenCtxCreate(out<CUgreenCtx>(), b.description, b.device, CU_GREEN_CTX_DEFAULT_STREAM));
  CALL(cuGreenCtxDestroy, "-", b.new_green(), cuGreenCtxDestroy(b.green));
  CALL(cuGreenCtxGetDevResource, "-", b.new_green(), cuGreenCtxGetDevResource(b.green, &b.resource, CU_DEV_RESOURCE_TYPE_SM));
  CALL(cuGreenCtxRecordEvent, "-", b.new_green(), cuGreenCtxRecordEvent(b.green, b.event));
  CALL(cuGreenCtxWaitEvent, "-", b.new_green(), cuGreenCtxWaitEvent(b.green, b.event));
  CALL(cuGreenCtxStreamCreate, "-", b.new_green(), cuGreenCtxStreamCreate(&b.stream, b.green, CU_STREAM_NON_BLOCKING, 0));
  CALL(cuGreenCtxGetId, "-", b.new_green(), cuGreenCtxGetId(b.green, out<unsigned long long>()));
  CALL(cuStreamGetGreenCtx, "-", NOTHING, cuStreamGetGreenCtx(b.idle, out<CUgreenCtx>()));
  CALL(cuCtxFromGreenCtx, "-", b.new_green(), cuCtxFromGreenCtx(out<CUcontext>(), b.green));
  CALL(cuDeviceGetDevResource, "-", NOTHING, cuDeviceGetDevResource(b.device, &b.resource, CU_DEV_RESOURCE_TYPE_SM));
  CALL(cuCtxGetDevResource, "-", NOTHING, cuCtxGetDevResource(b.context, &b.resource, CU_DEV_RESOURCE_TYPE_SM));
  CALL(cuDevSmResourceSplitByCount, "-", (must(cuDeviceGetDevResource(b.device, &b.resource, CU_DEV_RESOURCE_TYPE_SM)), *out<unsigned>() = 1),
       cuDevSmResourceSplitByCount(out<CUdevResource>(), out<unsigned>(), &b.resource, nullptr, 0, 8));
  CALL(cuDevResourceGenerateDesc, "-", b.new_green(), cuDevResourceGenerateDesc(out<CUdevResourceDesc>(), &b.resource, 1));
}

}  // namespace atlas
