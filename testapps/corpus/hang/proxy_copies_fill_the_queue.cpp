// A kernel waits for the last message. A proxy thread delivers the messages by asynchronous copies to the kernel's own stream, whose queue is full
// before the last one.
// expect: LG205 culprit=consume
// card: no, because how many copies the queue of a stream takes there is not known
#include "../corpus.hpp"

SCENARIO(proxy_copies_fill_the_queue) {
  constexpr unsigned last = 3000;
  const lg::Session session = lg::open_session();
  const CUfunction consume = lg::function(lg::module("corpus"), "consume");
  const CUdeviceptr inbox = lg::device_words(1);
  const CUstream only = lg::stream();
  unsigned* messages = nullptr;
  CK(cuMemHostAlloc(reinterpret_cast<void**>(&messages), (last + 1) * sizeof *messages, 0));
  CK(lg::launch_one(consume, only, inbox, last));
  std::thread proxy = lg::thread_in(session.context, [&] {
    for (unsigned number = 1; number <= last; ++number) {
      messages[number] = number;
      CK(cuMemcpyHtoDAsync(inbox, messages + number, sizeof *messages, only));
    }
  });
  CK(cuStreamSynchronize(only));
  proxy.join();
  std::puts("every message arrived");
  return 0;
}
