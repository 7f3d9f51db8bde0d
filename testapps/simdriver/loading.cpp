#include "loading.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "memory.hpp"
#include "settings.hpp"

namespace lgsim {

void *open_object(const std::string &bytes);  // image.cpp

namespace {

bool eager = false;
bool launch_blocking = false;
constexpr unsigned kQueuesAtFirst = 8, kMostQueues = 32;
unsigned queues = kQueuesAtFirst;

// About what a kernel and a module cost on a device: see the costs in the ground truth.
constexpr int64_t kFunctionBytes = 27 << 10;
constexpr int64_t kModuleBytes = 64 << 10;

std::mutex &libraries_mutex() {
  static std::mutex *const m = new std::mutex;
  return *m;
}

void put_in(Function &function) {
  function.loaded.store(true, std::memory_order_relaxed);
  count_code(kFunctionBytes);
}

}  // namespace

std::vector<LibraryRef> &loaded_libraries() {
  static auto *const libraries = new std::vector<LibraryRef>;
  return *libraries;
}

void add_library(const LibraryRef &library) {
  std::lock_guard<std::mutex> hold(libraries_mutex());
  loaded_libraries().push_back(library);
}

void drop_library(const Library *library) {
  std::lock_guard<std::mutex> hold(libraries_mutex());
  auto &all = loaded_libraries();
  all.erase(std::remove_if(all.begin(), all.end(), [&](const LibraryRef &l) { return l.get() == library; }), all.end());
}

bool eager_loading() { return eager; }
bool launches_block() { return launch_blocking; }
unsigned hardware_queues() { return queues; }

void read_loading_mode() {
  const char *mode = getenv("CUDA_MODULE_LOADING");
  // Lazy loading became the default with 12.2; before, it had to be asked for.
  eager = settings().driver_version < 12020;
  if (mode && !strcmp(mode, "EAGER")) eager = true;
  if (mode && !strcmp(mode, "LAZY")) eager = false;
  const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
  launch_blocking = blocking && !strcmp(blocking, "1");
  const char *connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const int wanted = connections ? atoi(connections) : 0;
  queues = wanted < 1 ? kQueuesAtFirst : std::min(static_cast<unsigned>(wanted), kMostQueues);
}

CUresult load_module(Context &context, const ImageRef &image, ModuleRef &module) {
  stop_context(context);
  if (work_is_lost()) return outcome();
  if (free_device_bytes() < static_cast<uint64_t>(kModuleBytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  module = std::make_shared<Module>(context, image);
  const lgsim_kernel *table = nullptr;
  if (!image->is_ptx) {
    module->object = open_object(image->bytes);
    if (!module->object) return CUDA_ERROR_INVALID_IMAGE;
    table = static_cast<const lgsim_kernel *>(dlsym(module->object, LGSIM_TABLE_SYMBOL));
  }
  for (size_t i = 0; i < image->kernels.size(); i++) {
    KernelInfo kernel = image->kernels[i];
    if (table) kernel.run = table[i].run;
    if (kernel.attributes.uses_printf) context.may_print = true;
    FunctionRef function = std::make_shared<Function>(*module, kernel);
    module->functions.push_back(function);
    registry().add(function);
    if (eager) put_in(*function);
  }
  count_code(kModuleBytes);
  context.modules.push_back(module);
  registry().add(module);
  return CUDA_SUCCESS;
}

ModuleRef module_there(Context &context, const Library &library) {
  std::lock_guard<std::mutex> hold(context.libraries_mutex);
  auto it = context.libraries.find(&library);
  return it == context.libraries.end() ? nullptr : it->second;
}

CUresult library_module(Context &context, Library &library, ModuleRef &module) {
  module = module_there(context, library);
  if (module) return CUDA_SUCCESS;
  CUresult r = open_library(library);
  if (r == CUDA_SUCCESS) r = load_module(context, library.image, module);
  if (r != CUDA_SUCCESS) return r;
  module->library = &library;
  for (size_t i = 0; i < module->functions.size(); i++)
    module->functions[i]->max_dynamic_shared = library.kernels[i]->max_dynamic_shared.load();
  std::lock_guard<std::mutex> hold(context.libraries_mutex);
  context.libraries[&library] = module;
  return CUDA_SUCCESS;
}

CUresult open_library(Library &library) {
  std::lock_guard<std::mutex> hold(library.mutex);
  if (library.opened) return library.error;
  library.opened = true;
  if (library.error == CUDA_SUCCESS) library.error = open_image(*library.image);
  if (library.error != CUDA_SUCCESS) return library.error;
  for (size_t i = 0; i < library.image->kernels.size(); i++) {
    KernelRef kernel = std::make_shared<Kernel>(library, i);
    library.kernels.push_back(kernel);
    registry().add(kernel);
  }
  return CUDA_SUCCESS;
}

void load_function(Function &function) {
  if (function.loaded.load(std::memory_order_relaxed)) return;
  put_in(function);
  raise_barrier(function.module.context);
}

void unload_module(Context &context, const ModuleRef &module) {
  static auto *const unloaded = new std::vector<ModuleRef>;
  wait_for_context(context);
  // Kernels that nothing waits for any more still run.
  if (work_is_lost()) return;
  {
    std::lock_guard<std::mutex> hold(libraries_mutex());
    unloaded->push_back(module);
  }
  int64_t bytes = kModuleBytes;
  for (const FunctionRef &function : module->functions) {
    function->unloaded = true;
    registry().remove<Function>(function.get());
    if (function->loaded) bytes += kFunctionBytes;
  }
  count_code(-bytes);
  registry().remove<Module>(module.get());
  Allocation gone;
  {
    std::lock_guard<std::mutex> hold(module->globals_mutex);
    for (uintptr_t address : module->globals) remove_allocation(address, gone);
  }
  context.modules.erase(std::remove(context.modules.begin(), context.modules.end(), module), context.modules.end());
  if (module->library) {
    std::lock_guard<std::mutex> hold(context.libraries_mutex);
    context.libraries.erase(module->library);
  }
  if (module->object) dlclose(module->object);
  module->object = nullptr;
  module->image = nullptr;
}

void load_all_libraries(Context &context) {
  std::vector<LibraryRef> libraries;
  {
    std::lock_guard<std::mutex> hold(libraries_mutex());
    libraries = loaded_libraries();
  }
  // One that cannot be loaded says so when it is used.
  ModuleRef module;
  for (const LibraryRef &library : libraries) (void)library_module(context, *library, module);
}

void unload_everything(Context &context) {
  while (!context.modules.empty() && !work_is_lost()) unload_module(context, ModuleRef(context.modules.back()));
}

CUresult find_or_load_module(Context &context, Library &library, ModuleRef &module) {
  module = module_there(context, library);
  if (module) return CUDA_SUCCESS;
  Alone hold(context.api_lock);
  return library_module(context, library, module);
}

CUresult loaded_function(Context &context, const void *handle, FunctionRef &function) {
  function = registry().find<Function>(handle);
  if (function) {
    if (&function->module.context != &context) return CUDA_ERROR_INVALID_HANDLE;
    if (function->loaded) return CUDA_SUCCESS;
  }
  KernelRef kernel;
  if (!function) {
    kernel = registry().find<Kernel>(handle);
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    if (ModuleRef there = module_there(context, kernel->library)) function = there->functions[kernel->index];
    if (function && function->loaded) return CUDA_SUCCESS;
  }
  Alone hold(context.api_lock);
  if (!function) {
    ModuleRef module;
    CUresult r = library_module(context, kernel->library, module);
    if (r != CUDA_SUCCESS) return r;
    function = module->functions[kernel->index];
  }
  load_function(*function);
  return CUDA_SUCCESS;
}

CUresult function_attribute(const KernelInfo &kernel, int max_dynamic_shared, CUfunction_attribute attribute, int *value) {
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  const lgsim_attributes &a = kernel.attributes;
  switch (static_cast<int>(attribute)) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = static_cast<int>(a.max_threads); break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = static_cast<int>(a.static_shared_bytes); break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = static_cast<int>(a.local_bytes); break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = static_cast<int>(a.registers); break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = 90; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = max_dynamic_shared; break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = -1; break;
    default:
      if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
      *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult module_global(Module &module, const char *name, CUdeviceptr *address, size_t *bytes) {
  if (!name || (!address && !bytes)) return CUDA_ERROR_INVALID_VALUE;
  void *symbol = module.object ? dlsym(module.object, name) : nullptr;
  Dl_info info{};
  const ElfW(Sym) *entry = nullptr;
  if (!symbol || !dladdr1(symbol, &info, reinterpret_cast<void **>(const_cast<ElfW(Sym) **>(&entry)), RTLD_DL_SYMENT) ||
      !entry || ELF64_ST_TYPE(entry->st_info) != STT_OBJECT)
    return CUDA_ERROR_NOT_FOUND;
  // dlsym also looks into what the object needs; a global of the C library is none of the module's.
  link_map *map = nullptr;
  if (dlinfo(module.object, RTLD_DI_LINKMAP, &map) || reinterpret_cast<void *>(map->l_addr) != info.dli_fbase)
    return CUDA_ERROR_NOT_FOUND;
  const auto at = reinterpret_cast<uintptr_t>(symbol);
  Allocation known;
  std::lock_guard<std::mutex> hold(module.globals_mutex);
  if (!find_allocation(at, known)) {
    add_allocation({at, entry->st_size, Memory::global, 0, &module.context, 0});
    module.globals.push_back(at);
  }
  if (address) *address = at;
  if (bytes) *bytes = entry->st_size;
  return CUDA_SUCCESS;
}

}  // namespace lgsim
