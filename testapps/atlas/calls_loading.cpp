// Modules, libraries, kernels, functions, occupancy, linking.
#include <unistd.h>

#include <cstring>

#include "atlas.hpp"

namespace atlas {
namespace {

const char *ptx_file() {
  static const std::string path = "/tmp/lazyguard-atlas-" + std::to_string(getpid()) + ".ptx";
  FILE *file = std::fopen(path.c_str(), "w");
  if (file == nullptr) throw Unprepared{CUDA_ERROR_FILE_NOT_FOUND};
  std::fputs(kPtx, file);
  std::fclose(file);
  return path.c_str();
}

CUresult link_file(Bench &b) {
  const char *path = ptx_file();
  const CUresult result = cuLinkAddFile(b.link, CU_JIT_INPUT_PTX, path, 0, nullptr, nullptr);
  unlink(path);
  return result;
}

CUresult link_ptx(Bench &b) {
  return cuLinkAddData(b.link, CU_JIT_INPUT_PTX, const_cast<char *>(kPtx), std::strlen(kPtx) + 1, "ptx", 0, nullptr, nullptr);
}

CUresult load_library(Bench &b) {
  return cuLibraryLoadData(&b.library2, b.image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
}

void module_with_loaded(Bench &b) {
  b.new_module();
  CUfunction function;
  must(cuModuleGetFunction(&function, b.module2, "warm"));
  must(b.launch(function, b.idle));
  b.unloaded = nullptr;
}

// A library whose module is in the context, and a kernel of it whose function is not loaded.
void library_in_context(Bench &b) {
  b.new_library();
  must(cuLibraryGetModule(&b.module2, b.library2));
}

size_t no_shared_memory(int) { return 0; }

CUlaunchConfig cluster() {
  static CUlaunchAttribute attribute;
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 32;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return config;
}

void any_module(Bench &b) {
  b.new_module();
  b.unloaded = nullptr;
}

}  // namespace

void loading_calls() {
  CALL(cuModuleLoad, "-", NOTHING, cuModuleLoad(&b.module2, b.image_path.c_str()));
  CALL(cuModuleLoadData, "-", NOTHING, cuModuleLoadData(&b.module2, b.image.data()));
  CALL(cuModuleLoadData, "PTX", NOTHING, cuModuleLoadData(&b.module2, kPtx));
  CALL(cuModuleLoadDataEx, "-", NOTHING, cuModuleLoadDataEx(&b.module2, b.image.data(), 0, nullptr, nullptr));
  CALL(cuModuleLoadFatBinary, "-", NOTHING, cuModuleLoadFatBinary(&b.module2, b.image.data()));
  CALL(cuModuleUnload, "-", any_module(b), cuModuleUnload(b.module2));
  CALL(cuModuleUnload, "used", module_with_loaded(b), cuModuleUnload(b.module2));
  CALL(cuModuleGetLoadingMode, "-", NOTHING, cuModuleGetLoadingMode(out<CUmoduleLoadingMode>()));
  CALL(cuModuleGetFunction, "-", NOTHING, cuModuleGetFunction(out<CUfunction>(), b.module, "warm"));
  CALL(cuModuleGetFunction, "cold", b.new_module(), cuModuleGetFunction(out<CUfunction>(), b.module2, b.unloaded_name));
  CALL(cuModuleGetFunctionCount, "-", NOTHING, cuModuleGetFunctionCount(out<unsigned>(), b.module));
  CALL(cuModuleEnumerateFunctions, "-", NOTHING, cuModuleEnumerateFunctions(out<CUfunction>(), 8, b.module));
  CALL(cuModuleGetGlobal, "no such", NOTHING, cuModuleGetGlobal(out<CUdeviceptr>(), out<size_t>(), b.module, "nosuch"));
  CALL(cuModuleGetTexRef, "no such", NOTHING, cuModuleGetTexRef(out<CUtexref>(), b.module, "nosuch"));
  CALL(cuModuleGetSurfRef, "no such", NOTHING, cuModuleGetSurfRef(out<CUsurfref>(), b.module, "nosuch"));

  CALL(cuLibraryLoadData, "-", NOTHING, load_library(b));
  CALL(cuLibraryLoadFromFile, "-", NOTHING,
       cuLibraryLoadFromFile(&b.library2, b.image_path.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CALL(cuLibraryUnload, "-", b.new_library(), cuLibraryUnload(b.library2));
  CALL(cuLibraryUnload, "used", library_in_context(b), cuLibraryUnload(b.library2));
  CALL(cuLibraryGetKernel, "-", b.new_library(), cuLibraryGetKernel(out<CUkernel>(), b.library2, "cold33"));
  CALL(cuLibraryGetKernelCount, "-", NOTHING, cuLibraryGetKernelCount(out<unsigned>(), b.library));
  CALL(cuLibraryEnumerateKernels, "-", b.new_library(), cuLibraryEnumerateKernels(out<CUkernel>(), 8, b.library2));
  CALL(cuLibraryGetModule, "-", NOTHING, cuLibraryGetModule(out<CUmodule>(), b.library));
  CALL(cuLibraryGetModule, "cold", b.new_library(), cuLibraryGetModule(out<CUmodule>(), b.library2));
  CALL(cuLibraryGetGlobal, "no such", NOTHING, cuLibraryGetGlobal(out<CUdeviceptr>(), out<size_t>(), b.library, "nosuch"));
  CALL(cuLibraryGetGlobal, "cold", b.new_library(), cuLibraryGetGlobal(out<CUdeviceptr>(), out<size_t>(), b.library2, "nosuch"));
  CALL(cuLibraryGetManaged, "no such", NOTHING, cuLibraryGetManaged(out<CUdeviceptr>(), out<size_t>(), b.library, "nosuch"));
  CALL(cuLibraryGetManaged, "cold", b.new_library(), cuLibraryGetManaged(out<CUdeviceptr>(), out<size_t>(), b.library2, "nosuch"));
  CALL(cuLibraryGetUnifiedFunction, "no such", NOTHING, cuLibraryGetUnifiedFunction(out<void *>(), b.library, "nosuch"));

  CALL(cuKernelGetFunction, "-", NOTHING, cuKernelGetFunction(out<CUfunction>(), b.kernel));
  CALL(cuKernelGetFunction, "cold", b.new_library(), cuKernelGetFunction(out<CUfunction>(), b.kernel2));
  CALL(cuKernelGetLibrary, "-", NOTHING, cuKernelGetLibrary(out<CUlibrary>(), b.kernel));
  CALL(cuKernelGetAttribute, "-", NOTHING, cuKernelGetAttribute(out<int>(), CU_FUNC_ATTRIBUTE_NUM_REGS, b.kernel, b.device));
  CALL(cuKernelGetAttribute, "cold", b.new_library(), cuKernelGetAttribute(out<int>(), CU_FUNC_ATTRIBUTE_NUM_REGS, b.kernel2, b.device));
  CALL(cuKernelSetAttribute, "-", NOTHING,
       cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, b.kernel, b.device));
  CALL(cuKernelSetAttribute, "cold", b.new_library(),
       cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, b.kernel2, b.device));
  CALL(cuKernelSetCacheConfig, "-", NOTHING, cuKernelSetCacheConfig(b.kernel, CU_FUNC_CACHE_PREFER_L1, b.device));
  CALL(cuKernelSetCacheConfig, "cold", b.new_library(), cuKernelSetCacheConfig(b.kernel2, CU_FUNC_CACHE_PREFER_L1, b.device));
  CALL(cuKernelGetName, "-", NOTHING, cuKernelGetName(out<const char *>(), b.kernel));
  CALL(cuKernelGetParamInfo, "-", NOTHING, cuKernelGetParamInfo(b.kernel, 0, out<size_t>(), out<size_t>() + 1));
  CALL(cuKernelGetParamInfo, "cold", b.new_library(), cuKernelGetParamInfo(b.kernel2, 0, out<size_t>(), out<size_t>() + 1));

  CALL(cuFuncGetAttribute, "-", NOTHING, cuFuncGetAttribute(out<int>(), CU_FUNC_ATTRIBUTE_NUM_REGS, b.warm));
  CALL(cuFuncGetAttribute, "cold", b.new_module(), cuFuncGetAttribute(out<int>(), CU_FUNC_ATTRIBUTE_NUM_REGS, b.unloaded));
  CALL(cuFuncSetAttribute, "-", NOTHING, cuFuncSetAttribute(b.warm, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024));
  CALL(cuFuncSetAttribute, "cold", b.new_module(), cuFuncSetAttribute(b.unloaded, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024));
  CALL(cuFuncSetCacheConfig, "-", NOTHING, cuFuncSetCacheConfig(b.warm, CU_FUNC_CACHE_PREFER_L1));
  CALL(cuFuncSetCacheConfig, "cold", b.new_module(), cuFuncSetCacheConfig(b.unloaded, CU_FUNC_CACHE_PREFER_L1));
  CALL(cuFuncSetSharedMemConfig, "-", NOTHING, cuFuncSetSharedMemConfig(b.warm, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE));
  CALL(cuFuncSetSharedMemConfig, "cold", b.new_module(), cuFuncSetSharedMemConfig(b.unloaded, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE));
  CALL(cuFuncGetModule, "-", NOTHING, cuFuncGetModule(out<CUmodule>(), b.warm));
  CALL(cuFuncGetName, "-", NOTHING, cuFuncGetName(out<const char *>(), b.warm));
  CALL(cuFuncGetParamInfo, "-", NOTHING, cuFuncGetParamInfo(b.warm, 0, out<size_t>(), out<size_t>() + 1));
  CALL(cuFuncGetParamInfo, "cold", b.new_module(), cuFuncGetParamInfo(b.unloaded, 0, out<size_t>(), out<size_t>() + 1));
  CALL(cuFuncIsLoaded, "-", NOTHING, cuFuncIsLoaded(out<CUfunctionLoadingState>(), b.warm));
  CALL(cuFuncIsLoaded, "cold", b.new_module(), cuFuncIsLoaded(out<CUfunctionLoadingState>(), b.unloaded));
  CALL(cuFuncLoad, "-", NOTHING, cuFuncLoad(b.warm));
  CALL(cuFuncLoad, "cold", b.new_module(), cuFuncLoad(b.unloaded));

  CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, "-", NOTHING, cuOccupancyMaxActiveBlocksPerMultiprocessor(out<int>(), b.warm, 128, 0));
  CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, "cold", b.new_module(),
       cuOccupancyMaxActiveBlocksPerMultiprocessor(out<int>(), b.unloaded, 128, 0));
  CALL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, "-", NOTHING,
       cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out<int>(), b.warm, 128, 0, 0));
  CALL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, "cold", b.new_module(),
       cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out<int>(), b.unloaded, 128, 0, 0));
  CALL(cuOccupancyMaxPotentialBlockSize, "-", NOTHING,
       cuOccupancyMaxPotentialBlockSize(out<int>(), out<int>() + 1, b.warm, no_shared_memory, 0, 0));
  CALL(cuOccupancyMaxPotentialBlockSize, "cold", b.new_module(),
       cuOccupancyMaxPotentialBlockSize(out<int>(), out<int>() + 1, b.unloaded, no_shared_memory, 0, 0));
  CALL(cuOccupancyMaxPotentialBlockSizeWithFlags, "-", NOTHING,
       cuOccupancyMaxPotentialBlockSizeWithFlags(out<int>(), out<int>() + 1, b.warm, no_shared_memory, 0, 0, 0));
  CALL(cuOccupancyMaxPotentialBlockSizeWithFlags, "cold", b.new_module(),
       cuOccupancyMaxPotentialBlockSizeWithFlags(out<int>(), out<int>() + 1, b.unloaded, no_shared_memory, 0, 0, 0));
  CALL(cuOccupancyAvailableDynamicSMemPerBlock, "-", NOTHING, cuOccupancyAvailableDynamicSMemPerBlock(out<size_t>(), b.warm, 1, 128));
  CALL(cuOccupancyAvailableDynamicSMemPerBlock, "cold", b.new_module(),
       cuOccupancyAvailableDynamicSMemPerBlock(out<size_t>(), b.unloaded, 1, 128));
  CALL(cuOccupancyMaxPotentialClusterSize, "-", NOTHING, cuOccupancyMaxPotentialClusterSize(out<int>(), b.warm, kept(cluster())));
  CALL(cuOccupancyMaxPotentialClusterSize, "cold", b.new_module(),
       cuOccupancyMaxPotentialClusterSize(out<int>(), b.unloaded, kept(cluster())));
  CALL(cuOccupancyMaxActiveClusters, "-", NOTHING, cuOccupancyMaxActiveClusters(out<int>(), b.warm, kept(cluster())));
  CALL(cuOccupancyMaxActiveClusters, "cold", b.new_module(), cuOccupancyMaxActiveClusters(out<int>(), b.unloaded, kept(cluster())));

  CALL_ONCE(cuLinkCreate, "-", NOTHING, cuLinkCreate(0, nullptr, nullptr, &b.link));
  CALL_ONCE(cuLinkAddData, "-", b.new_link(), link_ptx(b));
  CALL_ONCE(cuLinkAddFile, "-", b.new_link(), link_file(b));
  CALL_ONCE(cuLinkComplete, "-", (b.new_link(), must(link_ptx(b))), cuLinkComplete(b.link, out<void *>(), out<size_t>()));
  CALL_ONCE(cuLinkDestroy, "-", b.new_link(), cuLinkDestroy(b.link));
}

}  // namespace atlas
