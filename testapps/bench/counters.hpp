// The processor's own counters for the calling thread: user instructions and cache misses, where the kernel permits.
//
// Must not fail where it does not: a count that is not to be had is -1.
#pragma once
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace bench {

class Counter {
 public:
  explicit Counter(uint64_t event) {
    perf_event_attr attributes;
    std::memset(&attributes, 0, sizeof attributes);
    attributes.type = PERF_TYPE_HARDWARE;
    attributes.size = sizeof attributes;
    attributes.config = event;
    attributes.exclude_kernel = 1;
    attributes.exclude_hv = 1;
    descriptor_ = static_cast<int>(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
  }
  ~Counter() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  long long now() const {
    long long value = -1;
    if (descriptor_ < 0 || read(descriptor_, &value, sizeof value) != sizeof value) return -1;
    return value;
  }

 private:
  int descriptor_;
};

struct Counters {
  Counter instructions{PERF_COUNT_HW_INSTRUCTIONS};
  Counter cache_misses{PERF_COUNT_HW_CACHE_MISSES};
};

}  // namespace bench
