// A thread synchronizes a stream with a lock held, and the stream waits for a value that another thread would submit the write of, if it
// got the lock.
// expect: LG203 culprit=cuStreamWaitValue32_v2
// card: yes
#include <mutex>

#include "../corpus.hpp"

SCENARIO(lock_held_in_synchronize) {
  const lg::Session session = lg::open_session();
  const CUdeviceptr word = lg::device_words(1);
  const CUstream waits = lg::stream(), writes = lg::stream();
  std::mutex lock;
  lock.lock();
  std::thread writer = lg::thread_in(session.context, [&] {
    std::lock_guard<std::mutex> hold(lock);
    CK(cuStreamWriteValue32(writes, word, 1, 0));
  });
  CK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(cuStreamSynchronize(waits));
  lock.unlock();
  writer.join();
  std::puts("written");
  return 0;
}
