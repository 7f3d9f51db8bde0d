// See runtime_twin.hpp. The order of the calls follows a trace of the real runtime 13.0 in a program that creates two streams and launches
// two kernels; each function here does what the trace shows and nothing more. What the older runtimes look up was recorded of them; that
// they then call what they have found as 13.0 does, but for libraries where they have not asked for those, is assumed.
#include "runtime_twin.hpp"

#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <tuple>

namespace cudart {

namespace {

struct Lookup {
  const char* symbol;
  int version;
  unsigned flags;
  int first_runtime, last_runtime;
};

const Lookup kLookups[] = {
#define LOOKUP(symbol, version, flags, first_runtime, last_runtime) {symbol, version, flags, first_runtime, last_runtime},
#include "runtime_lookups.inc"
#undef LOOKUP
};
constexpr int kNewestRuntime = 13000;
constexpr int kRuntimes[] = {11080, 12000, 12040, 12090, kNewestRuntime};

// Function-local, because units register from static constructors of other files.
std::vector<Unit*>& units() {
  static std::vector<Unit*> all;
  return all;
}

// Puts a fat binary, or machine code as one, where it is to be.
void fill(Fatbin& fatbin, const std::vector<char>& image) {
  const std::vector<char> bytes = lg::as_fat_binary(image);
  EXPECT(bytes.size() <= sizeof fatbin.bytes);
  std::memcpy(fatbin.bytes, bytes.data(), bytes.size());
}

// Set while this thread is known to have the primary context current.
thread_local bool bound = false;

}  // namespace

Unit::Unit(const char* image_name, const FatbinWrapper* wrapper, Fatbin* fatbin)
    : image_name_(image_name), wrapper_(wrapper), fatbin_(fatbin) {
  units().push_back(this);
}

class Runtime {
 public:
  static Runtime& get() {
    static Runtime* runtime = new Runtime;  // never destroyed: threads may still be in a call at exit
    return *runtime;
  }

  // The driver's function of that name as the runtime asked for it; null when this driver does not have it.
  template <class Function>
  Function find(const char* symbol, int version) const {
    const auto found = functions_.find(std::make_tuple(std::string(symbol), version, 0u));
    return found == functions_.end() ? nullptr : reinterpret_cast<Function>(found->second);
  }

  template <class Function>
  Function need(const char* symbol, int version) const {
    const auto function = find<Function>(symbol, version);
    if (function == nullptr) {
      std::fprintf(stderr, "the driver has no %s (version %d)\n", symbol, version);
      std::_Exit(3);
    }
    return function;
  }

  // A thread's first runtime call begins here: the thread gets the primary context. Later calls ask nothing.
  void bind_thread() {
    if (bound) return;
    std::call_once(context_once_, [this] { create_context(); });
    CUcontext current = nullptr;
    CK(need<PFN_cuCtxGetCurrent_v4000>("cuCtxGetCurrent", 4000)(&current));
    if (current == nullptr) CK(need<PFN_cuCtxSetCurrent_v4000>("cuCtxSetCurrent", 4000)(context_));
    CUdevice device;
    CK(need<PFN_cuCtxGetDevice_v2000>("cuCtxGetDevice", 2000)(&device));
    bound = true;
  }

  CUfunction kernel(Unit& unit, const char* name) {
    // Held across loading and looking up, which wait for nothing, and given back before the launch, which may.
    std::lock_guard<std::mutex> guard(units_mutex_);
    load(unit);
    const auto known = unit.kernels_.find(name);
    if (known != unit.kernels_.end()) return known->second;
    CUfunction function = nullptr;
    if (unit.library_ != nullptr) {
      CUkernel kernel = nullptr;
      CK(need<PFN_cuLibraryGetKernel_v12000>("cuLibraryGetKernel", 12000)(&kernel, unit.library_, name));
      function = reinterpret_cast<CUfunction>(kernel);  // the launch functions take either handle
    } else {
      CK(need<PFN_cuModuleGetFunction_v2000>("cuModuleGetFunction", 2000)(&function, unit.module_, name));
    }
    unit.kernels_[name] = function;
    return function;
  }

 private:
  Runtime() {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == nullptr) {
      std::fprintf(stderr, "no CUDA driver: %s\n", dlerror());
      std::_Exit(3);
    }
    const int runtime = played_runtime();
    // 11.8 has the four-argument form only.
    const auto newer = runtime < 12000 ? nullptr : reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(driver, "cuGetProcAddress_v2"));
    if (newer != nullptr) {
      look_up_all(runtime, [newer](const Lookup& lookup, void** function) {
        CUdriverProcAddressQueryResult status;
        return newer(lookup.symbol, function, lookup.version, lookup.flags, &status);
      });
    }
    // Drivers before 12.0 have no other. (The simulated one of that age exports the newer form too, and it fails.)
    if (functions_.empty()) {
      const auto older = reinterpret_cast<PFN_cuGetProcAddress_v11030>(dlsym(driver, "cuGetProcAddress"));
      EXPECT(older != nullptr);
      look_up_all(runtime, [older](const Lookup& lookup, void** function) { return older(lookup.symbol, function, lookup.version, lookup.flags); });
    }
    start();
  }

  // 11080 for 11.8, as in CUDART_VERSION.
  static int played_runtime() {
    const char* const asked = std::getenv("LG_RUNTIME");
    const int runtime = asked == nullptr ? kNewestRuntime : std::atoi(asked);
    for (const int known : kRuntimes)
      if (runtime == known) return runtime;
    std::fprintf(stderr, "LG_RUNTIME=%s is no runtime whose look-ups were recorded\n", asked);
    std::_Exit(3);
  }

  template <class Question>
  void look_up_all(int runtime, Question question) {
    for (const Lookup& lookup : kLookups) {
      if (runtime < lookup.first_runtime || lookup.last_runtime < runtime) continue;
      void* function = nullptr;
      if (question(lookup, &function) != CUDA_SUCCESS || function == nullptr) continue;
      functions_[std::make_tuple(std::string(lookup.symbol), lookup.version, lookup.flags)] = function;
    }
  }

  void start() {
    int driver_version = 0;
    CK(need<PFN_cuDriverGetVersion_v2020>("cuDriverGetVersion", 2020)(&driver_version));
    CK(need<PFN_cuInit_v2000>("cuInit", 2000)(0));
    CUmoduleLoadingMode mode = CU_MODULE_EAGER_LOADING;  // what drivers do that do not know the question
    if (const auto loading_mode = find<PFN_cuModuleGetLoadingMode_v11070>("cuModuleGetLoadingMode", 11070)) CK(loading_mode(&mode));
    int count = 0;
    CK(need<PFN_cuDeviceGetCount_v2000>("cuDeviceGetCount", 2000)(&count));
    CK(need<PFN_cuDeviceGet_v2000>("cuDeviceGet", 2000)(&device_, 0));
    CK(need<PFN_cuDeviceGetName_v2000>("cuDeviceGetName", 2000)(device_name_, sizeof device_name_, device_));
    size_t bytes = 0;
    CK(need<PFN_cuDeviceTotalMem_v3020>("cuDeviceTotalMem", 3020)(&bytes, device_));
    CUuuid uuid;
    CK(need<PFN_cuDeviceGetUuid_v9020>("cuDeviceGetUuid", 9020)(&uuid, device_));
    for (Unit* unit : units()) fill(*unit->fatbin_, lg::image(unit->image_name_, device_name_));
    eager_ = mode == CU_MODULE_EAGER_LOADING;
    // No context exists yet: a guard that wants the kernels loaded has to wait for one.
    if (eager_ && has_libraries()) load_all();
  }

  void create_context() {
    CUcontext current = nullptr;
    CK(need<PFN_cuCtxGetCurrent_v4000>("cuCtxGetCurrent", 4000)(&current));
    CK(need<PFN_cuCtxSetCurrent_v4000>("cuCtxSetCurrent", 4000)(current));
    CK(need<PFN_cuDevicePrimaryCtxRetain_v7000>("cuDevicePrimaryCtxRetain", 7000)(&context_, device_));
    if (current == nullptr) CK(need<PFN_cuCtxSetCurrent_v4000>("cuCtxSetCurrent", 4000)(context_));
    // Modules, unlike libraries, need a context.
    if (eager_ && !has_libraries()) load_all();
  }

  bool has_libraries() const { return find<PFN_cuLibraryLoadData_v12000>("cuLibraryLoadData", 12000) != nullptr; }

  void load_all() {
    std::lock_guard<std::mutex> guard(units_mutex_);
    for (Unit* unit : units()) load(*unit);
  }

  void load(Unit& unit) {
    if (unit.library_ != nullptr || unit.module_ != nullptr) return;
    if (const auto load_library = find<PFN_cuLibraryLoadData_v12000>("cuLibraryLoadData", 12000)) {
      CUlibraryOption preserved = CU_LIBRARY_BINARY_IS_PRESERVED;
      void* yes = reinterpret_cast<void*>(1);
      CK(load_library(&unit.library_, unit.wrapper_, nullptr, nullptr, 0, &preserved, &yes, 1));
    } else {
      CK(need<PFN_cuModuleLoadData_v2000>("cuModuleLoadData", 2000)(&unit.module_, unit.wrapper_));
    }
  }

  std::map<std::tuple<std::string, int, unsigned>, void*> functions_;
  char device_name_[256] = "";
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  bool eager_ = false;
  std::once_flag context_once_;
  std::mutex units_mutex_;
};

namespace {

// A bound thread's runtime, for one call.
Runtime& bound_runtime() {
  Runtime& runtime = Runtime::get();
  runtime.bind_thread();
  return runtime;
}

}  // namespace

CUstream cudaStreamCreate() { return cudaStreamCreateWithFlags(CU_STREAM_DEFAULT); }

CUstream cudaStreamCreateWithFlags(unsigned flags) {
  CUstream stream = nullptr;
  CK(bound_runtime().need<PFN_cuStreamCreate_v2000>("cuStreamCreate", 2000)(&stream, flags));
  return stream;
}

void cudaStreamDestroy(CUstream stream) { CK(bound_runtime().need<PFN_cuStreamDestroy_v4000>("cuStreamDestroy", 4000)(stream)); }

void cudaStreamSynchronize(CUstream stream) {
  CK(bound_runtime().need<PFN_cuStreamSynchronize_v2000>("cuStreamSynchronize", 2000)(stream));
}

void cudaDeviceSynchronize() {
  Runtime& runtime = bound_runtime();
  CUcontext current = nullptr;
  CK(runtime.need<PFN_cuCtxGetCurrent_v4000>("cuCtxGetCurrent", 4000)(&current));
  CK(runtime.need<PFN_cuCtxSynchronize_v2000>("cuCtxSynchronize", 2000)());
}

void cudaStreamWaitEvent(CUstream stream, CUevent event) {
  CK(bound_runtime().need<PFN_cuStreamWaitEvent_v3020>("cuStreamWaitEvent", 3020)(stream, event, 0));
}

CUevent cudaEventCreateWithFlags(unsigned flags) {
  CUevent event = nullptr;
  CK(bound_runtime().need<PFN_cuEventCreate_v2000>("cuEventCreate", 2000)(&event, flags));
  return event;
}

void cudaEventRecord(CUevent event, CUstream stream) {
  CK(bound_runtime().need<PFN_cuEventRecord_v2000>("cuEventRecord", 2000)(event, stream));
}

void cudaEventDestroy(CUevent event) { CK(bound_runtime().need<PFN_cuEventDestroy_v4000>("cuEventDestroy", 4000)(event)); }

CUdeviceptr cudaMalloc(size_t bytes) {
  CUdeviceptr memory = 0;
  CK(bound_runtime().need<PFN_cuMemAlloc_v3020>("cuMemAlloc", 3020)(&memory, bytes));
  return memory;
}

void cudaFree(CUdeviceptr memory) { CK(bound_runtime().need<PFN_cuMemFree_v3020>("cuMemFree", 3020)(memory)); }

MappedMemory cudaHostAllocMapped(size_t bytes) {
  Runtime& runtime = bound_runtime();
  MappedMemory memory{};
  CK(runtime.need<PFN_cuMemHostAlloc_v2020>("cuMemHostAlloc", 2020)(&memory.host, bytes, CU_MEMHOSTALLOC_DEVICEMAP));
  CK(runtime.need<PFN_cuMemHostGetDevicePointer_v3020>("cuMemHostGetDevicePointer", 3020)(&memory.device, memory.host, 0));
  return memory;
}

void cudaFreeHost(void* memory) { CK(bound_runtime().need<PFN_cuMemFreeHost_v2000>("cuMemFreeHost", 2000)(memory)); }

void cudaMemset(CUdeviceptr memory, unsigned char value, size_t bytes) {
  CK(bound_runtime().need<PFN_cuMemsetD8_v3020>("cuMemsetD8", 3020)(memory, value, bytes));
}

void cudaMemcpyDeviceToHost(void* to, CUdeviceptr from, size_t bytes) {
  CK(bound_runtime().need<PFN_cuMemcpyDtoH_v3020>("cuMemcpyDtoH", 3020)(to, from, bytes));
}

void cudaMemcpyAsyncHostToDevice(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  CK(bound_runtime().need<PFN_cuMemcpyHtoDAsync_v3020>("cuMemcpyHtoDAsync", 3020)(to, from, bytes, stream));
}

void cudaMemcpyAsyncDeviceToHost(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  CK(bound_runtime().need<PFN_cuMemcpyDtoHAsync_v3020>("cuMemcpyDtoHAsync", 3020)(to, from, bytes, stream));
}

void launch_kernel(Unit& unit, const char* kernel, unsigned blocks, unsigned threads, CUstream stream, void** parameters) {
  Runtime& runtime = bound_runtime();
  const CUfunction function = runtime.kernel(unit, kernel);
  CK(runtime.need<PFN_cuLaunchKernel_v4000>("cuLaunchKernel", 4000)(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr));
}

}  // namespace cudart
