// A stream waits for a value whose write a thread submits after it has compiled PTX in a second context, which takes one and a half T.
// expect: slow
// card: no, because a compiler on a card takes its own time
#include "../corpus.hpp"

SCENARIO(slow_ptx_compiles_in_another_context) {
  setenv("CUDA_CACHE_DISABLE", "1", 1);
  const lg::Session session = lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUstream waits = lg::stream(), writes = lg::stream();
  CUcontext second;
  CK(cuCtxCreate(&second, nullptr, 0, session.device));
  CK(cuCtxSetCurrent(session.context));
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  std::thread writer = lg::thread_in(second, [&] {
    CUmodule compiled;
    CK(cuModuleLoadData(&compiled, lg::ptx_of(lg::pace_ms() * 3 / 2).c_str()));
    CK(cuCtxSetCurrent(session.context));
    CK(cuStreamWriteValue32(writes, word, 1, 0));
  });
  CK(cuStreamSynchronize(waits));
  writer.join();
  std::puts("the value came");
  return 0;
}
