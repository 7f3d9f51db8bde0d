// cuLibrary* and cuKernel*: libraries belong to no context. What asks for their code in one brings their module into it.
#include <algorithm>

#include "capture.hpp"
#include "entry.hpp"
#include "loading.hpp"

namespace lgsim {
void add_library(const LibraryRef &library);    // loading.cpp
void drop_library(const Library *library);
}  // namespace lgsim

using namespace lgsim;

namespace {

CUresult load(CUlibrary *result, const void *code, const char *path) {
  if (!result) return CUDA_ERROR_INVALID_VALUE;
  ImageRef image;
  const CUresult error = path ? copy_image_file(path, image) : copy_image(code, image);
  if (error == CUDA_ERROR_INVALID_VALUE || error == CUDA_ERROR_FILE_NOT_FOUND) return error;
  // Lazily, even an image that is none at all is taken; whatever needs it says what is wrong with it.
  LibraryRef library = std::make_shared<Library>(image, error);
  if (eager_loading()) {
    const CUresult r = open_library(*library);
    if (r != CUDA_SUCCESS) return r;
  }
  registry().add(library);
  add_library(library);
  if (eager_loading()) {
    each_context([&](Context &context) {
      Alone hold(context.api_lock);
      ModuleRef module;
      library_module(context, *library, module);
    });
  }
  *result = handle_of<CUlibrary>(library);
  return CUDA_SUCCESS;
}

CUresult find_library(CUlibrary handle, LibraryRef &library) {
  library = registry().find<Library>(handle);
  return library ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult find_kernel(CUkernel handle, KernelRef &kernel) {
  kernel = registry().find<Kernel>(handle);
  return kernel ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

const KernelInfo &info(const Kernel &kernel) { return kernel.library.image->kernels[kernel.index]; }

}  // namespace

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,
                           unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **,
                           unsigned int numLibraryOptions) {
  ENTER();
  if (numJitOptions && (!jitOptions || !jitOptionsValues)) return CUDA_ERROR_INVALID_VALUE;
  // cuBLASLt gives no values where none of the options has one, and the driver takes that (580.159.04).
  if (numLibraryOptions && !libraryOptions) return CUDA_ERROR_INVALID_VALUE;
  return load(library, code, nullptr);
}
CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions, void **jitOptionsValues,
                               unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
                               unsigned int numLibraryOptions) {
  ENTER();
  if (!fileName) return CUDA_ERROR_INVALID_VALUE;
  if (numJitOptions && (!jitOptions || !jitOptionsValues)) return CUDA_ERROR_INVALID_VALUE;
  if (numLibraryOptions && (!libraryOptions || !libraryOptionValues)) return CUDA_ERROR_INVALID_VALUE;
  return load(library, nullptr, fileName);
}
CUresult cuLibraryUnload(CUlibrary handle) {
  ENTER();
  LibraryRef library;
  CUresult r = find_library(handle, library);
  if (r != CUDA_SUCCESS) return r;
  each_context([&](Context &context) {
    // Where no context has its module, there is nothing to wait for.
    if (!module_there(context, *library)) return;
    Alone hold(context.api_lock);
    ModuleRef there;
    for (const ModuleRef &module : context.modules)
      if (module->library == library.get()) there = module;
    if (there) unload_module(context, there);
  });
  if (work_is_lost()) return outcome();
  if (!registry().remove<Library>(library.get())) return CUDA_ERROR_INVALID_HANDLE;
  for (const KernelRef &kernel : library->kernels) registry().remove<Kernel>(kernel.get());
  drop_library(library.get());
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary handle, const char *name) {
  ENTER();
  if (!pKernel || !name) return CUDA_ERROR_INVALID_VALUE;
  LibraryRef library;
  CUresult r = find_library(handle, library);
  if (r != CUDA_SUCCESS) return r;
  r = open_library(*library);
  if (r != CUDA_SUCCESS) return r;
  for (const KernelRef &kernel : library->kernels) {
    if (info(*kernel).name != name) continue;
    *pKernel = handle_of<CUkernel>(kernel);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}
CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib) {
  ENTER();
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  LibraryRef library;
  CUresult r = find_library(lib, library);
  if (r != CUDA_SUCCESS) return r;
  *count = open_library(*library) == CUDA_SUCCESS ? static_cast<unsigned>(library->kernels.size()) : 0;
  return CUDA_SUCCESS;
}
CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib) {
  ENTER();
  if (!kernels || !numKernels) return CUDA_ERROR_INVALID_VALUE;
  LibraryRef library;
  CUresult r = find_library(lib, library);
  if (r == CUDA_SUCCESS) r = open_library(*library);
  if (r != CUDA_SUCCESS) return r;
  for (unsigned i = 0; i < numKernels && i < library->kernels.size(); i++)
    kernels[i] = handle_of<CUkernel>(library->kernels[i]);
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary handle) {
  ENTER();
  if (!pMod) return CUDA_ERROR_INVALID_VALUE;
  LibraryRef library;
  CUresult r = find_library(handle, library);
  if (r != CUDA_SUCCESS) return r;
  NEED_CONTEXT(context);
  ModuleRef module;
  r = find_or_load_module(*context, *library, module);
  if (r == CUDA_SUCCESS) *pMod = handle_of<CUmodule>(module);
  return r;
}
CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name) {
  ENTER();
  LibraryRef found;
  CUresult r = find_library(library, found);
  if (r != CUDA_SUCCESS) return r;
  NEED_CONTEXT(context);
  ModuleRef module;
  r = find_or_load_module(*context, *found, module);
  return r == CUDA_SUCCESS ? module_global(*module, name, dptr, bytes) : r;
}
CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name) {
  ENTER();
  if (!name || (!dptr && !bytes)) return CUDA_ERROR_INVALID_VALUE;
  LibraryRef found;
  CUresult r = find_library(library, found);
  // An image compiled for the host has no managed variables. The library need not be brought into a context to know.
  return r == CUDA_SUCCESS ? CUDA_ERROR_NOT_FOUND : r;
}
CUresult cuLibraryGetUnifiedFunction(void **fptr, CUlibrary handle, const char *symbol) {
  ENTER();
  if (!fptr || !symbol) return CUDA_ERROR_INVALID_VALUE;
  LibraryRef library;
  CUresult r = find_library(handle, library);
  return r == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : r;  // as a card answers to a name that is not there
}
CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel handle) {
  ENTER();
  if (!pFunc) return CUDA_ERROR_INVALID_VALUE;
  KernelRef kernel;
  CUresult r = find_kernel(handle, kernel);
  if (r != CUDA_SUCCESS) return r;
  NEED_CONTEXT(context);
  FunctionRef function;
  r = loaded_function(*context, handle, function);
  if (r == CUDA_SUCCESS) *pFunc = handle_of<CUfunction>(function);
  return r;
}
CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel handle) {
  ENTER();
  if (!pLib) return CUDA_ERROR_INVALID_VALUE;
  KernelRef kernel;
  CUresult r = find_kernel(handle, kernel);
  if (r == CUDA_SUCCESS) *pLib = handle_of<CUlibrary>(&kernel->library);
  return r;
}
CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel handle, CUdevice dev) {
  ENTER();
  KernelRef kernel;
  CUresult r = find_kernel(handle, kernel);
  if (r != CUDA_SUCCESS) return r;
  if (!is_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
  return function_attribute(info(*kernel), kernel->max_dynamic_shared, attrib, pi);
}
CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel handle, CUdevice dev) {
  ENTER();
  KernelRef kernel;
  CUresult r = find_kernel(handle, kernel);
  if (r != CUDA_SUCCESS) return r;
  if (!is_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
  if (attrib < 0 || attrib >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (attrib == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    if (val < 0 || val > 227 * 1024) return CUDA_ERROR_INVALID_VALUE;
    kernel->max_dynamic_shared = val;
    // Measured: it holds in every context of the device, also where the function is loaded. Others take it over when the kernel comes there.
    each_context([&](Context &there) {
      if (const ModuleRef module = module_there(there, kernel->library)) module->functions[kernel->index]->max_dynamic_shared = val;
    });
  }
  Context *context = nullptr;
  if (current_context(context) != CUDA_SUCCESS) return CUDA_SUCCESS;
  FunctionRef function;
  return loaded_function(*context, handle, function);
}
CUresult cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache, CUdevice dev) {
  ENTER();
  KernelRef kernel;
  CUresult r = find_kernel(handle, kernel);
  if (r != CUDA_SUCCESS) return r;
  if (!is_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
  Context *context = nullptr;
  if (current_context(context) != CUDA_SUCCESS) return CUDA_SUCCESS;
  FunctionRef function;
  return loaded_function(*context, handle, function);
}
CUresult cuKernelGetName(const char **name, CUkernel handle) {
  ENTER();
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  KernelRef kernel;
  CUresult r = find_kernel(handle, kernel);
  if (r == CUDA_SUCCESS) *name = info(*kernel).name.c_str();
  return r;
}
CUresult cuKernelGetParamInfo(CUkernel handle, size_t paramIndex, size_t *paramOffset, size_t *paramSize) {
  ENTER();
  if (!paramOffset) return CUDA_ERROR_INVALID_VALUE;
  KernelRef kernel;
  CUresult r = find_kernel(handle, kernel);
  if (r != CUDA_SUCCESS) return r;
  // The kernel's library is brought into the context for it.
  Context *context = nullptr;
  if (current_context(context) == CUDA_SUCCESS) {
    ModuleRef module;
    r = find_or_load_module(*context, kernel->library, module);
    if (r != CUDA_SUCCESS) return r;
  }
  const KernelInfo &k = info(*kernel);
  if (paramIndex >= k.sizes.size()) return CUDA_ERROR_INVALID_VALUE;
  *paramOffset = k.offsets[paramIndex];
  if (paramSize) *paramSize = k.sizes[paramIndex];
  return CUDA_SUCCESS;
}
