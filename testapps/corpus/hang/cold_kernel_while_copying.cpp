// A thread copies data in a loop while the main thread launches a kernel for the first time beside a persistent one. The launch
// returns, and then neither the copies nor the kernel start any more: both threads wait for what the load's barrier holds back.
// expect: LG201 culprit=spin_until
// env: LAZYGUARD_PRELOAD=off
// default: completes
// card: yes
#include "../corpus.hpp"

// Copies pinned memory to the device again and again, as a loader of data does.
class Copier {
 public:
  explicit Copier(CUcontext context) : to_(lg::device_words(1024)), stream_(lg::stream()) {
    CK(cuMemHostAlloc(&from_, 4096, 0));
    thread_ = lg::thread_in(context, [this] {
      while (!stop_) {
        CK(cuMemcpyHtoDAsync(to_, from_, 4096, stream_));
        CK(cuStreamSynchronize(stream_));
        ++copies_;
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    });
    while (copies_ < 10) std::this_thread::yield();
  }
  void join() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> copies_{0};
  void* from_ = nullptr;
  CUdeviceptr to_;
  CUstream stream_;
  std::thread thread_;
};

int main() {
  const lg::Session session = lg::open_session();
  const lg::MappedWord stop = lg::mapped_word(), counter = lg::mapped_word();
  const CUlibrary code = lg::library("corpus");
  const CUkernel step = lg::kernel(code, "step");
  const CUstream persistent = lg::stream(), work = lg::stream();
  Copier copier(session.context);
  CK(lg::launch_one(lg::kernel(code, "spin_until"), persistent, stop.device));
  CK(lg::launch_one(step, work, counter.device));
  CK(cuStreamSynchronize(work));
  *stop.host = 1;
  copier.join();
  CK(cuCtxSynchronize());
  std::puts("a step beside copies");
  return 0;
}
