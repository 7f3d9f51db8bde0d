// A spinning grid fills every multiprocessor. Copies on a third stream still run, so not all stands still; the program waits for
// the kernel that would end the grid.
// expect: LG206 culprit=fill_and_spin
// card: yes, alone
#include "../corpus.hpp"

SCENARIO(device_filled_copies_go_on) {
  const lg::Session session = lg::open_session();
  const lg::MappedWord flag = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction fill = lg::function(code, "fill_and_spin"), set = lg::function(code, "set_flag");
  const CUstream filled = lg::stream(), other = lg::stream(), copies = lg::stream();
  const CUdeviceptr words = lg::device_words(1024);
  void* pinned;
  CK(cuMemHostAlloc(&pinned, 4096, 0));
  std::atomic<bool> end{false};
  CK(lg::launch_everywhere(fill, filled, flag.device));
  std::thread copier = lg::thread_in(session.context, [&] {
    while (!end) {
      CK(cuMemcpyHtoDAsync(words, pinned, 4096, copies));
      CK(cuStreamSynchronize(copies));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  lg::head_start();
  CK(lg::launch_one(set, other, flag.device));
  CK(cuStreamSynchronize(other));
  end = true;
  copier.join();
  std::puts("the flag was set");
  return 0;
}
