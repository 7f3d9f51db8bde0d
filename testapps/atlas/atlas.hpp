// What the parts of the atlas share: the table of calls, and what stands ready for them.
//
// A call is a function of the driver, what it needs, and the call itself. What it needs is made while the context is idle; the call is
// made on a thread of its own, beside what its situation has put in flight. Must not make the call itself anywhere else.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "session.hpp"

namespace atlas {

// Thrown where what a call needs cannot be made: the driver answers that it does not support it, say.
struct Unprepared {
  CUresult result;
};

inline void must(CUresult result) {
  if (result != CUDA_SUCCESS) throw Unprepared{result};
}

// A place for a result that no other call reads.
template <class T>
T *out() {
  static T place[64];
  return place;
}

// Keeps a value for the process, for calls that take the address of one.
template <class T>
T *kept(const T &value) {
  static std::deque<T> all;
  all.push_back(value);
  return &all.back();
}

constexpr size_t k4K = 4096, k1M = 1 << 20, k2M = 2 << 20, k16M = 16 << 20;

struct Bench {
  bool simulated = false;  // the driver
  CUdevice device = 0;
  CUcontext context = nullptr;
  std::string image_path;
  std::vector<char> image;
  CUmodule module = nullptr;
  CUfunction spin = nullptr, warm = nullptr, big = nullptr;
  CUlibrary library = nullptr;  // its module is in the context
  CUkernel kernel = nullptr;    // its function is loaded
  CUstream idle = nullptr, blocking = nullptr, probe = nullptr;  // nothing is in flight on these
  CUstream busy = nullptr;      // what the situation has in flight is here
  CUevent event = nullptr, busy_event = nullptr;
  volatile int *flag = nullptr;  // releases what is in flight; ours, so that it outlives the context
  CUdeviceptr flag_on_device = 0;
  CUdeviceptr buffer = 0;  // 64 MB
  char *pinned = nullptr;  // 16 MB
  std::vector<char> pageable;

  // Made by what a call needs.
  CUfunction unloaded = nullptr;  // if it is loaded afterwards, the call loaded it
  const char *unloaded_name = nullptr;
  CUmodule module2 = nullptr;
  CUlibrary library2 = nullptr;
  CUkernel kernel2 = nullptr;
  CUdeviceptr memory = 0, address = 0;
  void *host = nullptr;
  CUmemGenericAllocationHandle physical = 0;
  CUmemoryPool pool = nullptr;
  CUstream stream = nullptr;
  bool captures = false;  // on `stream`
  CUevent event2 = nullptr;
  CUcontext context2 = nullptr;
  CUgraph graph = nullptr, graph2 = nullptr;
  CUgraphNode node = nullptr, node2 = nullptr;
  CUgraphExec exec = nullptr;
  CUarray array = nullptr;
  CUmipmappedArray mipmapped = nullptr;
  CUtexref texture = nullptr;
  CUlinkState link = nullptr;
  CUuserObject object = nullptr;
  CUgreenCtx green = nullptr;
  CUdevResource resource = {};
  CUdevResourceDesc description = nullptr;
  unsigned long long word = 0;
  int descriptor = -1;

  void make();
  // What the calls need, each anew.
  void new_module();
  void new_library();
  void new_array();
  void new_mipmapped();
  void new_texture();
  void new_graph();
  void new_kernel_node();
  void new_exec();
  void new_physical();
  void reserve();
  void map();
  void allow_access();
  void new_pool();
  void new_link();
  void new_green();
  void begin_capture();
  void allocate(size_t bytes) { must(cuMemAlloc(&memory, bytes)); }
  void import_from_other_process();

  CUDA_KERNEL_NODE_PARAMS kernel_node(CUfunction function);
  CUresult launch(CUfunction function, CUstream on);
  void synchronize() { must(cuCtxSynchronize()); }

  CUipcMemHandle memory_handle = {};
  CUipcEventHandle event_handle = {};
};

struct Call {
  const char *function, *variant;
  bool once;
  void (*prepare)(Bench &);
  CUresult (*make)(Bench &);
};

struct NotCalled {
  const char *function, *reason;
};

std::vector<Call> &calls();
std::vector<NotCalled> &not_called();

// One file of the table adds its calls.
void context_calls();
void device_calls();
void loading_calls();
void memory_calls();
void mapping_calls();
void copy_calls();
void stream_calls();
void launch_calls();
void graph_calls();
void graph_node_calls();
void array_calls();
void texture_calls();
void other_calls();
void calls_left_out();

// Holds what another process of this program shares: memory and an event.
int share_with_parent();

extern const char kPtx[];

}  // namespace atlas

// CALL(function, variant, what it needs, the call). The name is the one a program writes; what the header makes of it is called.
#define CALL(function, variant, prepare, ...) CALL_IN(false, #function, variant, prepare, __VA_ARGS__)
// A call that changes its process or its context, so that a second one finds something else.
#define CALL_ONCE(function, variant, prepare, ...) CALL_IN(true, #function, variant, prepare, __VA_ARGS__)
#define CALL_IN(once, name, variant, prepare, ...)                     \
  ::atlas::calls().push_back({name, variant, once,                     \
                              [](::atlas::Bench &b) {                  \
                                (void)b;                               \
                                prepare;                               \
                              },                                       \
                              [](::atlas::Bench &b) -> CUresult {      \
                                (void)b;                               \
                                return __VA_ARGS__;                    \
                              }})
#define NOTHING (void)0
