// What other work leaves of a processor's nearest caches between two launches.
//
// A loop of launches on the simulated driver finds its code and its data where the launch before left them. A real driver's launch takes
// microseconds, and its code and data push those of a library out of the first level of the caches, so that a library pays for each line that it
// touches. This does the same: it reads so many bytes, and executes as many.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "check.hpp"

namespace bench {

class Eviction {
 public:
  // 0: nothing is evicted.
  explicit Eviction(int kibibytes) : bytes_(static_cast<size_t>(kibibytes) * 1024), data_(bytes_) {
    if (bytes_ == 0) return;
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(memory != MAP_FAILED);
    auto* code = static_cast<unsigned char*>(memory);
    for (size_t at = 0; at < bytes_; at += kLine) {
      const bool is_last = at + kLine == bytes_;
      std::memcpy(code + at, is_last ? kReturn : kToNextLine, sizeof kReturn);
    }
    EXPECT(mprotect(memory, bytes_, PROT_READ | PROT_EXEC) == 0);
    __builtin___clear_cache(reinterpret_cast<char*>(code), reinterpret_cast<char*>(code) + bytes_);
    std::memcpy(&run_, &memory, sizeof run_);
  }

  void operator()() const {
    if (run_ == nullptr) return;
    unsigned sum = 0;
    for (size_t at = 0; at < bytes_; at += kLine) sum += static_cast<volatile const unsigned char*>(data_.data())[at];
    (void)sum;
    run_();
  }

 private:
  static constexpr size_t kLine = 64;
#if defined(__x86_64__)
  static constexpr unsigned char kToNextLine[4] = {0xeb, 0x3e, 0x90, 0x90};  // jmp over the rest of the line
  static constexpr unsigned char kReturn[4] = {0xc3, 0x90, 0x90, 0x90};      // ret
#elif defined(__aarch64__)
  static constexpr unsigned char kToNextLine[4] = {0x10, 0x00, 0x00, 0x14};  // b .+64
  static constexpr unsigned char kReturn[4] = {0xc0, 0x03, 0x5f, 0xd6};      // ret
#endif

  size_t bytes_;
  std::vector<unsigned char> data_;
  void (*run_)() = nullptr;
};

}  // namespace bench
