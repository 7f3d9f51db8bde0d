// A thread that has ended launched a kernel on its own default stream, which wrote the value long ago that another stream waited for. That
// one is at a long graph now.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(wait_written_through_per_thread_stream) {
  const lg::Session session = lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUmodule code = lg::module("corpus");
  const CUfunction publish = lg::function(code, "publish"), busy = lg::function(code, "busy_for");
  const CUstream work = lg::stream();
  CK(lg::launch_one(busy, work, 1ull));
  CK(cuCtxSynchronize());
  CK(cuStreamWaitValue32(work, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  lg::thread_in(session.context, [&] { CK(lg::launch_one(publish, CU_STREAM_PER_THREAD, word, 1u, 1000ull)); }).join();
  CK(lg::launch_one(busy, work, lg::pace_ns(1.5)));
  CK(cuStreamSynchronize(work));
  std::puts("done");
  return 0;
}
