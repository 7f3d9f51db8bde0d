// nccl_job, with a library that it opens for itself alone and whose functions it looks up.
#include <dlfcn.h>

#include <cstdio>

#include "nccl/job.hpp"

int main(int count, char** arguments) {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 4;
  }
  lg::Nccl nccl{};
#define LG_LOOK_UP(name) nccl.name = reinterpret_cast<decltype(nccl.name)>(dlsym(library, "nccl" #name));
  LG_NCCL_FUNCTIONS(LG_LOOK_UP)
#undef LG_LOOK_UP
  return lg::nccl_job(nccl, count, arguments);
}
