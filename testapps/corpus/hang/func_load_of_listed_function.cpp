// A function that a library's module lists is loaded with cuFuncLoad while a persistent kernel runs; an innocent stream is
// synchronized afterwards.
// expect: LG201 culprit=spin_until
// env: LAZYGUARD_PRELOAD=off
// default: completes
// card: yes
#include "../corpus.hpp"

SCENARIO(func_load_of_listed_function) {
  lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUlibrary code = lg::library("corpus");
  const CUkernel step = lg::kernel(code, "step");
  const CUstream persistent = lg::stream(), work = lg::stream();
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  CUmodule module;
  unsigned count = 0;
  CK(cuLibraryGetModule(&module, code));
  CK(cuModuleGetFunctionCount(&count, module));
  std::vector<CUfunction> listed(count);
  CK(cuModuleEnumerateFunctions(listed.data(), count, module));
  CK(lg::launch_one(lg::kernel(code, "spin_until"), persistent, stop.device));

  for (const CUfunction function : listed) {
    const char* name = nullptr;
    CK(cuFuncGetName(&name, function));
    if (std::string(name) == "publish") CK(cuFuncLoad(function));
  }
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  *stop.host = 1;
  CK(cuCtxSynchronize());
  std::puts("a listed function was loaded");
  return 0;
}
