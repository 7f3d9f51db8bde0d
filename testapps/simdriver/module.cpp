// cuModule* and cuFunc*: modules loaded into a context, and their functions.
//
// What only looks at a function, and cuFuncLoad of one that is loaded, answers while another thread holds the context lock; looking
// one up by name, loading and changing it does not.
#include "capture.hpp"
#include "entry.hpp"
#include "loading.hpp"
#include "settings.hpp"

using namespace lgsim;

namespace {

CUresult load(CUmodule *result, const void *data, const char *path) {
  if (!result) return CUDA_ERROR_INVALID_VALUE;
  NEED_CONTEXT(context);
  ImageRef image;
  CUresult r = path ? copy_image_file(path, image) : copy_image(data, image);
  if (r == CUDA_SUCCESS) r = open_image(*image);
  if (r != CUDA_SUCCESS) return r;
  context->api_lock.lock_to_load();
  Alone hold(context->api_lock, std::adopt_lock);
  ModuleRef module;
  r = load_module(*context, image, module);
  if (r == CUDA_SUCCESS) *result = handle_of<CUmodule>(module);
  return r;
}

CUresult find_module(CUmodule handle, ModuleRef &module) {
  module = registry().find<Module>(handle);
  return module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// A CUkernel is no CUfunction here, although launches take one for the other.
CUresult find_function(CUfunction handle, FunctionRef &function) {
  function = registry().find<Function>(handle);
  return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace

CUresult cuModuleLoad(CUmodule *module, const char *fname) {
  ENTER();
  if (!fname) return CUDA_ERROR_INVALID_VALUE;
  return load(module, nullptr, fname);
}
CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  ENTER();
  return load(module, image, nullptr);
}
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options,
                            void **optionValues) {
  ENTER();
  if (numOptions && (!options || !optionValues)) return CUDA_ERROR_INVALID_VALUE;
  return load(module, image, nullptr);
}
CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin) {
  ENTER();
  // Measured: what compilers leave beside a fat binary to refer to it is not taken here.
  NEED_CONTEXT(context);
  if (module && fatCubin && is_reference(fatCubin)) return CUDA_ERROR_INVALID_IMAGE;
  return load(module, fatCubin, nullptr);
}
CUresult cuModuleUnload(CUmodule hmod) {
  ENTER();
  ModuleRef module;
  CUresult r = find_module(hmod, module);
  if (r != CUDA_SUCCESS) return r;
  if (module->library) return CUDA_ERROR_NOT_PERMITTED;  // the library's, and unloaded with it
  Alone hold(module->context.api_lock);
  unload_module(module->context, module);
  return outcome();
}
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
  ENTER();
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  *mode = eager_loading() ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name) {
  ENTER();
  if (!hfunc || !name) return CUDA_ERROR_INVALID_VALUE;
  ModuleRef module;
  CUresult r = find_module(hmod, module);
  if (r != CUDA_SUCCESS) return r;
  Alone hold(module->context.api_lock);
  for (const FunctionRef &function : module->functions) {
    if (function->kernel.name != name) continue;
    load_function(*function);
    *hfunc = handle_of<CUfunction>(function);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}
CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule mod) {
  ENTER();
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  ModuleRef module;
  CUresult r = find_module(mod, module);
  if (r == CUDA_SUCCESS) *count = static_cast<unsigned>(module->functions.size());
  return r;
}
CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod) {
  ENTER();
  if (!functions || !numFunctions) return CUDA_ERROR_INVALID_VALUE;
  ModuleRef module;
  CUresult r = find_module(mod, module);
  if (r != CUDA_SUCCESS) return r;
  for (unsigned i = 0; i < numFunctions && i < module->functions.size(); i++)
    functions[i] = handle_of<CUfunction>(module->functions[i]);
  return CUDA_SUCCESS;
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name) {
  ENTER();
  ModuleRef module;
  CUresult r = find_module(hmod, module);
  if (r != CUDA_SUCCESS) return r;
  Alone hold(module->context.api_lock);
  return module_global(*module, name, dptr, bytes);
}

CUresult cuFuncLoad(CUfunction hfunc) {
  ENTER();
  FunctionRef function;
  CUresult r = find_function(hfunc, function);
  if (r != CUDA_SUCCESS) return r;
  return loaded_function(function->module.context, hfunc, function);
}
CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction hfunc) {
  ENTER();
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  FunctionRef function;
  CUresult r = find_function(hfunc, function);
  if (r == CUDA_SUCCESS) *state = function->loaded ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
  return r;
}
CUresult cuFuncGetName(const char **name, CUfunction hfunc) {
  ENTER();
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  FunctionRef function;
  CUresult r = find_function(hfunc, function);
  if (r == CUDA_SUCCESS) *name = function->kernel.name.c_str();
  return r;
}
CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc) {
  ENTER();
  if (!hmod) return CUDA_ERROR_INVALID_VALUE;
  FunctionRef function;
  CUresult r = find_function(hfunc, function);
  if (r == CUDA_SUCCESS) *hmod = handle_of<CUmodule>(&function->module);
  return r;
}
CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize) {
  ENTER();
  if (!paramOffset) return CUDA_ERROR_INVALID_VALUE;
  FunctionRef function;
  CUresult r = find_function(func, function);
  if (r != CUDA_SUCCESS) return r;
  if (paramIndex >= function->kernel.sizes.size()) return CUDA_ERROR_INVALID_VALUE;
  *paramOffset = function->kernel.offsets[paramIndex];
  if (paramSize) *paramSize = function->kernel.sizes[paramIndex];
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc) {
  ENTER();
  FunctionRef function;
  CUresult r = find_function(hfunc, function);
  if (r != CUDA_SUCCESS) return r;
  return function_attribute(function->kernel, function->max_dynamic_shared, attrib, pi);
}
CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  ENTER();
  FunctionRef function;
  CUresult r = find_function(hfunc, function);
  if (r != CUDA_SUCCESS) return r;
  Alone hold(function->module.context.api_lock);
  load_function(*function);
  if (attrib == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    if (value < 0 || value > 227 * 1024) return CUDA_ERROR_INVALID_VALUE;
    function->max_dynamic_shared = value;
  } else if (attrib < 0 || attrib >= CU_FUNC_ATTRIBUTE_MAX) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache) {
  ENTER();
  FunctionRef function;
  CUresult r = find_function(hfunc, function);
  if (r != CUDA_SUCCESS) return r;
  Alone hold(function->module.context.api_lock);
  load_function(*function);
  return CUDA_SUCCESS;
}
