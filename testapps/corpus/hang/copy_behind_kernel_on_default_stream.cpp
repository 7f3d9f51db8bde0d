// A kernel on the default stream waits for a word that a second thread copies to the device: synchronously, and so behind the kernel on the
// same stream.
// expect: LG204 culprit=consume
// card: yes
#include "../corpus.hpp"

SCENARIO(copy_behind_kernel_on_default_stream) {
  const lg::Session session = lg::open_session();
  const CUfunction consume = lg::function(lg::module("corpus"), "consume");
  const CUdeviceptr inbox = lg::device_words(1);
  CK(lg::launch_one(consume, nullptr, inbox, 1));
  std::thread progress = lg::thread_in(session.context, [&] {
    lg::head_start();
    const unsigned message = 1;
    CK(cuMemcpyHtoD(inbox, &message, sizeof message));
  });
  CK(cuStreamSynchronize(nullptr));
  progress.join();
  std::puts("one message");
  return 0;
}
