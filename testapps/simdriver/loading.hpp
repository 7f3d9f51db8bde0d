// Images, modules, functions, libraries and kernels, and the two lazy loads.
//
// A module comes into a context once all that is in flight in that context has ended; the calling thread waits for that and holds
// the context lock meanwhile. A function comes into a module that is already there at once, behind a barrier: nothing submitted
// to the context afterwards starts until all that was in flight has ended. With nothing in flight neither is noticed.
#pragma once

#include <string>

#include "context.hpp"
#include "kernel_table.h"

namespace lgsim {

// One kernel of an image. Points into the loaded object, or into the image for PTX.
struct KernelInfo {
  std::string name;
  void (*run)(const lgsim_grid &, size_t, size_t, void **) = nullptr;
  std::vector<size_t> sizes, offsets;
  size_t parameter_bytes = 0;
  lgsim_attributes attributes;
};

// What was handed to a load call, copied: its kernels can be listed, and it can be instantiated into contexts.
struct Image {
  std::string bytes;   // a host shared object, or PTX text
  bool is_ptx = false;
  std::vector<KernelInfo> kernels;
};
using ImageRef = std::shared_ptr<Image>;

// Whether it is what compilers leave beside a fat binary to refer to it.
bool is_reference(const void *data);

// Copying an image, and finding out what is in it (which for PTX means compiling it), are two steps: a library does the second
// when it is first asked for something.
CUresult copy_image(const void *data, ImageRef &image);
CUresult copy_image_file(const char *path, ImageRef &image);
CUresult open_image(Image &image);

struct Module;

struct Function : Object {
  static constexpr Type kType = Type::function;
  Function(Module &m, const KernelInfo &k) : Object(kType), module(m), kernel(k) {}
  Module &module;  // a module's memory stays when it is unloaded, for graphs may still name its functions
  std::atomic<bool> unloaded{false};
  const KernelInfo kernel;
  std::atomic<bool> loaded{false};
  std::atomic<int> max_dynamic_shared{48 * 1024};
};
using FunctionRef = std::shared_ptr<Function>;

struct Module : Object {
  static constexpr Type kType = Type::module;
  Module(Context &c, ImageRef i) : Object(kType), context(c), image(std::move(i)) {}
  Context &context;
  ImageRef image;                    // given back when the module is unloaded; the module itself is kept
  const Library *library = nullptr;  // set when it is a library's module, which only the library can unload
  void *object = nullptr;            // from dlopen; null for PTX
  std::vector<FunctionRef> functions;
  std::mutex globals_mutex;          // guards what follows; a leaf but for the allocation table's
  std::vector<uintptr_t> globals;    // addresses handed out, in the allocation table while the module is there
};
using ModuleRef = std::shared_ptr<Module>;

struct Kernel : Object {
  static constexpr Type kType = Type::kernel;
  Kernel(Library &l, size_t i) : Object(kType), library(l), index(i) {}
  Library &library;
  const size_t index;
  std::atomic<int> max_dynamic_shared{48 * 1024};
};
using KernelRef = std::shared_ptr<Kernel>;

struct Library : Object {
  static constexpr Type kType = Type::library;
  Library(ImageRef i, CUresult e) : Object(kType), image(std::move(i)), error(e) {}
  const ImageRef image;
  // Opening happens once, under the mutex; kernels and error are constant afterwards.
  std::mutex mutex;
  bool opened = false;
  CUresult error;  // what is wrong with the image, answered by whatever needs it
  std::vector<KernelRef> kernels;
};
using LibraryRef = std::shared_ptr<Library>;

// Opens the library's image if that was not done yet; its error otherwise.
CUresult open_library(Library &library);

bool eager_loading();
// Whether CUDA_LAUNCH_BLOCKING is set: read by cuInit, too.
bool launches_block();
// How many hardware queues the streams of a context share: CUDA_DEVICE_MAX_CONNECTIONS, or 8.
unsigned hardware_queues();
void read_loading_mode();  // from the environment, by cuInit

// The following want the context lock held alone.
CUresult load_module(Context &context, const ImageRef &image, ModuleRef &module);
CUresult library_module(Context &context, Library &library, ModuleRef &module);
void load_function(Function &function);
void unload_module(Context &context, const ModuleRef &module);
void load_all_libraries(Context &context);
void unload_everything(Context &context);

// The following want no lock, and take it, alone, only when something has to be loaded.

// The library's module in the context, if it is there; it is not brought there.
ModuleRef module_there(Context &context, const Library &library);
// The library's module in the context.
CUresult find_or_load_module(Context &context, Library &library, ModuleRef &module);
// The function that a handle means in the context, loaded: a CUfunction of that context, or a CUkernel.
CUresult loaded_function(Context &context, const void *handle, FunctionRef &function);

CUresult function_attribute(const KernelInfo &kernel, int max_dynamic_shared, CUfunction_attribute attribute, int *value);

// The address and size of a global of the module.
CUresult module_global(Module &module, const char *name, CUdeviceptr *address, size_t *bytes);

}  // namespace lgsim
