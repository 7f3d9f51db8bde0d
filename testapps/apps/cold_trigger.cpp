// Everything that loads a function besides a plain launch, under a kernel that spins until the cold kernel `release` ends it. The first
// argument says which: set_attribute, occupancy, graph_node, launch_ex, cooperative, capture, get_function.
//
// bare:    hangs in cuCtxSynchronize, whatever the argument
// guarded: completes, prints "released by ..."
// off:     hangs, LG201
//
// The kernels come from one library whose module is in the context (the spin is launched before), so it is always the function's load
// that puts the barrier on the device, never the module's.
#include <cstdio>
#include <cstring>

#include "../common/image.hpp"
#include "../common/session.hpp"

namespace {

CUdevice device;
CUcontext context;
CUkernel cold;
CUstream stream;
CUdeviceptr flag;

CUfunction as_function(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }

void set_attribute() {
  CK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, cold, device));
  CK(lg::launch_one(as_function(cold), stream, flag));
}

void occupancy() {
  int blocks = 0;
  CK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, as_function(cold), 32, 0));
  CK(lg::launch_one(as_function(cold), stream, flag));
}

void get_function() {
  CUfunction function;
  CK(cuKernelGetFunction(&function, cold));
  CK(lg::launch_one(function, stream, flag));
}

void launch_ex() {
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  void* parameters[] = {&flag};
  CK(cuLaunchKernelEx(&config, as_function(cold), parameters, nullptr));
}

void cooperative() {
  void* parameters[] = {&flag};
  CK(cuLaunchCooperativeKernel(as_function(cold), 1, 1, 1, 1, 1, 1, 0, stream, parameters));
}

void launch_graph(CUgraph graph) {
  CUgraphExec executable;
  CK(cuGraphInstantiate(&executable, graph, 0));
  CK(cuGraphLaunch(executable, stream));
}

void graph_node() {
  CUgraph graph;
  CK(cuGraphCreate(&graph, 0));
  void* parameters[] = {&flag};
  CUDA_KERNEL_NODE_PARAMS node_parameters{};
  node_parameters.kern = cold;  // a CUkernel goes here and not into `func`
  node_parameters.ctx = context;
  node_parameters.gridDimX = node_parameters.gridDimY = node_parameters.gridDimZ = 1;
  node_parameters.blockDimX = node_parameters.blockDimY = node_parameters.blockDimZ = 1;
  node_parameters.kernelParams = parameters;
  CUgraphNode node;
  CK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &node_parameters));
  launch_graph(graph);
}

void capture() {
  CUgraph graph;
  CK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CK(lg::launch_one(as_function(cold), stream, flag));
  CK(cuStreamEndCapture(stream, &graph));
  launch_graph(graph);
}

const struct {
  const char* name;
  void (*run)();
} triggers[] = {{"set_attribute", set_attribute}, {"occupancy", occupancy},     {"get_function", get_function}, {"launch_ex", launch_ex},
                {"cooperative", cooperative},     {"graph_node", graph_node}, {"capture", capture}};

}  // namespace

int main(int argc, char** argv) {
  const lg::Session session = lg::open_session();
  device = session.device;
  context = session.context;
  const auto code = lg::image("job");
  const lg::MappedWord word = lg::mapped_word();
  flag = word.device;
  CUlibrary library;
  CUkernel spin;
  CUstream spinning;
  CK(cuStreamCreate(&spinning, CU_STREAM_NON_BLOCKING));
  CK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CK(cuLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CK(cuLibraryGetKernel(&spin, library, "spin"));
  CK(cuLibraryGetKernel(&cold, library, "release"));
  for (const auto& trigger : triggers) {
    if (argc < 2 || std::strcmp(argv[1], trigger.name) != 0) continue;
    CK(lg::launch_one(as_function(spin), spinning, flag));
    trigger.run();
    CK(cuCtxSynchronize());
    std::printf("released by %s\n", trigger.name);
    return 0;
  }
  std::fputs("usage: cold_trigger set_attribute|occupancy|get_function|launch_ex|cooperative|graph_node|capture\n", stderr);
  return 2;
}
