// Launches of kernels and host functions, by every function that has been there for it.
#include "atlas.hpp"

namespace atlas {
namespace {

CUresult with_config(Bench &b, CUfunction function, CUstream stream) {
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  void *arguments[] = {&b.buffer};
  return cuLaunchKernelEx(&config, function, arguments, nullptr);
}

CUresult cooperative(Bench &b, CUfunction function) {
  void *arguments[] = {&b.buffer};
  return cuLaunchCooperativeKernel(function, 1, 1, 1, 1, 1, 1, 0, b.idle, arguments);
}

CUresult on_devices(Bench &b) {
  void *arguments[] = {&b.buffer};
  CUDA_LAUNCH_PARAMS p{};
  p.function = b.warm;
  p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
  p.hStream = b.idle;
  p.kernelParams = arguments;
  return cuLaunchCooperativeKernelMultiDevice(&p, 1, 0);
}

// 5,000 is more than a stream's queue has places for.
CUresult many(Bench &b, CUstream stream) {
  CUresult result = CUDA_SUCCESS;
  for (int i = 0; i < 5000 && result == CUDA_SUCCESS; i++) result = b.launch(b.warm, stream);
  return result;
}

// The old way, in steps.
void shaped(Bench &b) {
  must(cuFuncSetBlockShape(b.warm, 1, 1, 1));
  must(cuParamSetSize(b.warm, sizeof b.buffer));
  must(cuParamSetv(b.warm, 0, &b.buffer, sizeof b.buffer));
}

void CUDA_CB on_host(void *) {}

CUfunction cold_kernel(Bench &b) { return reinterpret_cast<CUfunction>(b.kernel2); }

}  // namespace

void launch_calls() {
  CALL(cuLaunchKernel, "-", NOTHING, b.launch(b.warm, b.idle));
  CALL(cuLaunchKernel, "busy", NOTHING, b.launch(b.warm, b.busy));
  CALL(cuLaunchKernel, "legacy", NOTHING, b.launch(b.warm, CU_STREAM_LEGACY));
  CALL(cuLaunchKernel, "cold function", b.new_module(), b.launch(b.unloaded, b.idle));
  CALL(cuLaunchKernel, "cold library", b.new_library(), b.launch(cold_kernel(b), b.idle));
  CALL_ONCE(cuLaunchKernel, "more local memory", NOTHING, b.launch(b.big, b.idle));
  CALL(cuLaunchKernel, "5,000, busy", NOTHING, many(b, b.busy));
  CALL(cuLaunchKernelEx, "-", NOTHING, with_config(b, b.warm, b.idle));
  CALL(cuLaunchKernelEx, "cold function", b.new_module(), with_config(b, b.unloaded, b.idle));
  CALL(cuLaunchKernelEx, "cold library", b.new_library(), with_config(b, cold_kernel(b), b.idle));
  CALL_ONCE(cuLaunchCooperativeKernel, "-", NOTHING, cooperative(b, b.warm));
  CALL(cuLaunchCooperativeKernel, "cold function", b.new_module(), cooperative(b, b.unloaded));
  CALL(cuLaunchCooperativeKernelMultiDevice, "-", NOTHING, on_devices(b));
  CALL_ONCE(cuLaunchHostFunc, "-", NOTHING, cuLaunchHostFunc(b.idle, on_host, nullptr));
  CALL(cuFuncSetBlockShape, "-", NOTHING, cuFuncSetBlockShape(b.warm, 1, 1, 1));
  CALL(cuFuncSetSharedSize, "-", NOTHING, cuFuncSetSharedSize(b.warm, 0));
  CALL(cuParamSetSize, "-", NOTHING, cuParamSetSize(b.warm, 8));
  CALL(cuParamSeti, "-", (must(cuParamSetSize(b.warm, 8))), cuParamSeti(b.warm, 0, 0));
  CALL(cuParamSetf, "-", (must(cuParamSetSize(b.warm, 8))), cuParamSetf(b.warm, 0, 0));
  CALL(cuParamSetv, "-", (must(cuParamSetSize(b.warm, 8))), cuParamSetv(b.warm, 0, &b.buffer, sizeof b.buffer));
  CALL(cuParamSetTexRef, "-", b.new_texture(), cuParamSetTexRef(b.warm, CU_PARAM_TR_DEFAULT, b.texture));
  CALL(cuLaunch, "-", shaped(b), cuLaunch(b.warm));
  CALL(cuLaunchGrid, "-", shaped(b), cuLaunchGrid(b.warm, 1, 1));
  CALL(cuLaunchGridAsync, "-", shaped(b), cuLaunchGridAsync(b.warm, 1, 1, b.idle));
}

}  // namespace atlas
