// A server says that it is ready, and then, for a request, compiles code, instantiates a graph that needs local memory, and raises the stack limit.
// Another graph and the same limit again add no local memory.
// hazard: LG110 call=cuLinkComplete kernel=- stream=none
// hazard: LG110 call=cuGraphInstantiateWithFlags kernel=- stream=none
// hazard: LG110 call=cuCtxSetLimit kernel=- stream=none
// card: yes
#include <dlfcn.h>

#include "../corpus.hpp"

static void link() {
  const std::string text = lg::ptx_of(1);
  CUlinkState state;
  void* linked;
  size_t bytes;
  CK(cuLinkCreate(0, nullptr, nullptr, &state));
  CK(cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char*>(text.c_str()), text.size() + 1, "text", 0, nullptr, nullptr));
  CK(cuLinkComplete(state, &linked, &bytes));
  CK(cuLinkDestroy(state));
}

SCENARIO(prepares_when_ready) {
  const lg::LocalMemory memory;
  const CUdeviceptr words = lg::device_words(64);
  const CUstream work = lg::stream();
  CUgraph graph;
  CUgraphExec executable;
  CK(cuStreamBeginCapture(work, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CK(lg::launch_one(memory.large, work, words, 1));
  CK(cuStreamEndCapture(work, &graph));
  if (const auto ready = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "lazyguard_ready"))) ready();
  link();
  for (int i = 0; i < 2; ++i) {
    CK(cuGraphInstantiate(&executable, graph, 0));
    CK(cuGraphLaunch(executable, work));
    CK(cuStreamSynchronize(work));
    CK(cuGraphExecDestroy(executable));
  }
  for (int i = 0; i < 2; ++i) CK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 65536));
  std::puts("served");
  return 0;
}
