// nccl_job, as a shared object that the program opens for itself alone: the program has neither NCCL nor the CUDA driver.
#include <dlfcn.h>

#include <cstdio>
#include <string>

#include "image.hpp"

int main(int count, char** arguments) {
  void* plugin = dlopen((lg::folder_of_executable() + "/libnccl_job.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  void* job = plugin == nullptr ? nullptr : dlsym(plugin, "nccl_job_main");
  if (job == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 4;
  }
  return reinterpret_cast<int (*)(int, char**)>(job)(count, arguments);
}
