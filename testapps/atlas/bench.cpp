// What stands ready for the calls, and how what they need is made.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "atlas.hpp"
#include "image.hpp"

namespace atlas {

const char kPtx[] =
    ".version 6.4\n.target sm_75\n.address_size 64\n"
    ".visible .entry nothing(.param .u64 nothing_param_0) { ret; }\n";

void Bench::make() {
  const lg::Session session = lg::open_session();
  device = session.device;
  context = session.context;
  char name[256] = "";
  CK(cuDeviceGetName(name, sizeof name, device));
  simulated = std::strncmp(name, "Simulated", 9) == 0;
  image = lg::image("probes", name);
  image_path = lg::folder_of_executable() + "/../kernels/probes" + (simulated ? ".host.so" : ".fatbin");
  CK(cuModuleLoadData(&module, image.data()));
  CK(cuModuleGetFunction(&spin, module, "spin"));
  CK(cuModuleGetFunction(&warm, module, "warm"));
  CK(cuModuleGetFunction(&big, module, "bigstack"));
  CK(cuFuncLoad(spin));
  CK(cuFuncLoad(big));
  CK(cuLibraryLoadData(&library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CK(cuLibraryGetKernel(&kernel, library, "warm"));
  CUfunction function;
  CK(cuKernelGetFunction(&function, kernel));
  CK(cuFuncLoad(function));
  for (CUstream *made : {&idle, &probe}) CK(cuStreamCreate(made, CU_STREAM_NON_BLOCKING));
  CK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  CK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  CK(cuEventCreate(&busy_event, CU_EVENT_DEFAULT));
  void *page = mmap(nullptr, k4K, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(page != MAP_FAILED);
  CK(cuMemHostRegister(page, k4K, CU_MEMHOSTREGISTER_DEVICEMAP));
  CK(cuMemHostGetDevicePointer(&flag_on_device, page, 0));
  flag = static_cast<volatile int *>(page);
  CK(cuMemAlloc(&buffer, 64 * k1M));
  CK(cuMemsetD8(buffer, 0, k1M));
  void *locked;
  CK(cuMemHostAlloc(&locked, k16M, 0));
  pinned = static_cast<char *>(locked);
  pageable.assign(k2M, 1);
  for (CUstream on : {idle, blocking, probe}) CK(launch(warm, on));
  CK(cuEventRecord(event, idle));
  CK(cuCtxSynchronize());
}

CUresult Bench::launch(CUfunction function, CUstream on) { return lg::launch_one(function, on, buffer, 1); }

void Bench::new_module() {
  must(cuModuleLoadData(&module2, image.data()));
  unsigned count = 0;
  must(cuModuleGetFunctionCount(&count, module2));
  std::vector<CUfunction> all(count);
  must(cuModuleEnumerateFunctions(all.data(), count, module2));
  for (CUfunction function : all) {
    CUfunctionLoadingState state;
    const char *name = nullptr;
    must(cuFuncIsLoaded(&state, function));
    must(cuFuncGetName(&name, function));
    if (state == CU_FUNCTION_LOADING_STATE_UNLOADED && std::strncmp(name, "cold", 4) == 0) {
      unloaded = function;
      unloaded_name = name;
    }
  }
  if (unloaded == nullptr) throw Unprepared{CUDA_ERROR_NOT_FOUND};
}

void Bench::new_library() {
  must(cuLibraryLoadData(&library2, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  must(cuLibraryGetKernel(&kernel2, library2, "cold20"));
}

void Bench::new_array() {
  CUDA_ARRAY_DESCRIPTOR shape{};
  shape.Width = shape.Height = 64;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  must(cuArrayCreate(&array, &shape));
}

void Bench::new_mipmapped() {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = shape.Height = 64;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  must(cuMipmappedArrayCreate(&mipmapped, &shape, 2));
}

void Bench::new_graph() { must(cuGraphCreate(&graph, 0)); }

CUDA_KERNEL_NODE_PARAMS Bench::kernel_node(CUfunction function) {
  static CUdeviceptr argument;
  static int number = 1;
  static void *arguments[] = {&argument, &number};
  argument = buffer;
  CUDA_KERNEL_NODE_PARAMS p{};
  p.func = function;
  p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
  p.kernelParams = arguments;
  return p;
}

void Bench::new_kernel_node() {
  new_graph();
  const CUDA_KERNEL_NODE_PARAMS p = kernel_node(warm);
  must(cuGraphAddKernelNode(&node, graph, nullptr, 0, &p));
}

void Bench::new_exec() { must(cuGraphInstantiate(&exec, graph, 0)); }

namespace {
CUmemAllocationProp on_device(CUdevice device) {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.location.id = device;
  return p;
}
}  // namespace

void Bench::new_physical() {
  const CUmemAllocationProp p = on_device(device);
  must(cuMemCreate(&physical, k2M, &p, 0));
}

void Bench::reserve() { must(cuMemAddressReserve(&address, k2M, 0, 0, 0)); }

void Bench::map() {
  new_physical();
  reserve();
  must(cuMemMap(address, k2M, 0, physical, 0));
}

void Bench::allow_access() {
  CUmemAccessDesc access{};
  access.location = on_device(device).location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  must(cuMemSetAccess(address, k2M, &access, 1));
}

void Bench::new_pool() {
  CUmemPoolProps p{};
  p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  p.location = on_device(device).location;
  must(cuMemPoolCreate(&pool, &p));
}

void Bench::new_link() { must(cuLinkCreate(0, nullptr, nullptr, &link)); }

void Bench::new_green() {
  CUdevResource all;
  unsigned groups = 1;
  must(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
  must(cuDevSmResourceSplitByCount(&resource, &groups, &all, nullptr, 0, 8));
  must(cuDevResourceGenerateDesc(&description, &resource, 1));
  must(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
}

// Relaxed, so that any thread may end it.
void Bench::begin_capture() {
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  captures = true;
}

// The handles cannot be opened by the process that made them. The other one lives until its standard input ends, with this process.
void Bench::import_from_other_process() {
  int up[2], down[2];
  EXPECT(pipe(up) == 0 && pipe(down) == 0);
  const std::string self = lg::folder_of_executable() + "/atlas";
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    dup2(down[0], STDIN_FILENO);
    dup2(up[1], STDOUT_FILENO);
    for (int end : {up[0], up[1], down[0], down[1]}) close(end);
    execl(self.c_str(), "atlas", "SHARE", nullptr);
    _exit(127);
  }
  close(up[1]);
  close(down[0]);
  auto whole = [&](void *to, size_t bytes) {
    for (size_t have = 0; have < bytes;) {
      const ssize_t n = read(up[0], static_cast<char *>(to) + have, bytes - have);
      if (n <= 0) throw Unprepared{CUDA_ERROR_NOT_SUPPORTED};
      have += static_cast<size_t>(n);
    }
  };
  whole(&memory_handle, sizeof memory_handle);
  whole(&event_handle, sizeof event_handle);
}

int share_with_parent() {
  lg::open_session();
  CUdeviceptr memory;
  CUevent event;
  CUipcMemHandle memory_handle;
  CUipcEventHandle event_handle;
  if (cuMemAlloc(&memory, k2M) != CUDA_SUCCESS || cuIpcGetMemHandle(&memory_handle, memory) != CUDA_SUCCESS ||
      cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS ||
      cuIpcGetEventHandle(&event_handle, event) != CUDA_SUCCESS)
    return 1;
  if (write(STDOUT_FILENO, &memory_handle, sizeof memory_handle) < 0 || write(STDOUT_FILENO, &event_handle, sizeof event_handle) < 0)
    return 1;
  char none;
  while (read(STDIN_FILENO, &none, 1) > 0) {
  }
  return 0;
}

}  // namespace atlas
