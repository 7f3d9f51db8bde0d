// A stream waits for a value whose write a thread submits as soon as another stream's host function, which sleeps for one and a half T,
// has returned.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(writer_waits_for_a_host_function) {
  const lg::Session session = lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUstream waits = lg::stream(), hosts = lg::stream();
  CK(cuLaunchHostFunc(hosts, [](void*) { lg::pass(1.5); }, nullptr));
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  std::thread writer = lg::thread_in(session.context, [&] {
    CK(cuStreamSynchronize(hosts));
    CK(cuStreamWriteValue32(hosts, word, 1, 0));
  });
  CK(cuStreamSynchronize(waits));
  writer.join();
  std::puts("the value came");
  return 0;
}
