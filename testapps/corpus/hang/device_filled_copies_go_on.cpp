// A spinning grid fills every multiprocessor. Copies on a third stream still run, so not all stands still; the program waits for
// the kernel that would end the grid.
// expect: LG206 culprit=fill_and_spin
// card: yes, alone
#include "../corpus.hpp"

// As many blocks of 1,024 threads as the device holds.
CUresult launch_everywhere(CUfunction function, CUstream stream, CUdeviceptr argument) {
  int multiprocessors = 0, threads = 0;
  CK(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  CK(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0));
  void* parameters[] = {&argument};
  return cuLaunchKernel(function, static_cast<unsigned>(multiprocessors * (threads / 1024)), 1, 1, 1024, 1, 1, 0, stream, parameters, nullptr);
}

int main() {
  const lg::Session session = lg::open_session();
  const lg::MappedWord flag = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction fill = lg::function(code, "fill_and_spin"), set = lg::function(code, "set_flag");
  const CUstream filled = lg::stream(), other = lg::stream(), copies = lg::stream();
  const CUdeviceptr words = lg::device_words(1024);
  void* pinned;
  CK(cuMemHostAlloc(&pinned, 4096, 0));
  std::atomic<bool> end{false};
  CK(launch_everywhere(fill, filled, flag.device));
  std::thread copier = lg::thread_in(session.context, [&] {
    while (!end) {
      CK(cuMemcpyHtoDAsync(words, pinned, 4096, copies));
      CK(cuStreamSynchronize(copies));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CK(lg::launch_one(set, other, flag.device));
  CK(cuStreamSynchronize(other));
  end = true;
  copier.join();
  std::puts("the flag was set");
  return 0;
}
