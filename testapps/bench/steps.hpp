// Counts what a piece of code executes, one instruction at a time: the processor's trap flag stops the thread after each of them.
//
// For machines whose kernel denies access to the processor's counters, as in virtual machines. The count is exact, and the code runs a
// thousand times slower meanwhile. The time-stamp counter, where the code reads it, goes on by one for each instruction instead, so that
// code which decides by it takes the path that it takes at full speed. Counts the calling thread alone; one thread at a time may count.
#pragma once
#include <signal.h>
#include <ucontext.h>
#include <x86intrin.h>

#include <cstddef>
#include <cstdint>

namespace bench {

struct Steps {
  unsigned long instructions = 0;
  unsigned long locked = 0;        // read-modify-write instructions that lock the bus: what every lock is made of
  unsigned long system_calls = 0;
};

namespace steps_detail {

inline Steps counted;
inline uintptr_t last_address;
inline uint64_t counter_at_begin;

// The instruction at `address`, which the thread is about to execute. Knows prefixes and the three forms that are counted.
inline void classify(const unsigned char* address) {
  bool lock = false;
  for (;; ++address) {
    const unsigned char byte = *address;
    if (byte == 0xf0) lock = true;
    const bool legacy_prefix = byte == 0xf0 || byte == 0xf2 || byte == 0xf3 || byte == 0x66 || byte == 0x67 || byte == 0x2e || byte == 0x36 ||
                               byte == 0x3e || byte == 0x26 || byte == 0x64 || byte == 0x65;
    if (!legacy_prefix && (byte & 0xf0) != 0x40) break;
  }
  if (address[0] == 0x0f && address[1] == 0x05) ++counted.system_calls;
  // An exchange with memory locks without a prefix.
  const bool exchange = (address[0] == 0x86 || address[0] == 0x87) && (address[1] & 0xc0) != 0xc0;
  if (lock || exchange) ++counted.locked;
}

// Whether the instruction at `address` is RDTSC, which this then does in place of the processor.
inline bool reads_counter(uintptr_t address, greg_t* registers) {
  const auto* code = reinterpret_cast<const unsigned char*>(address);
  if (code[0] != 0x0f || code[1] != 0x31) return false;
  const uint64_t now = counter_at_begin + counted.instructions;
  registers[REG_RAX] = static_cast<greg_t>(now & 0xffffffff);
  registers[REG_RDX] = static_cast<greg_t>(now >> 32);
  registers[REG_RIP] += 2;
  return true;
}

inline void on_trap(int, siginfo_t*, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  auto address = static_cast<uintptr_t>(registers[REG_RIP]);
  // A repeated string instruction traps once a round and stays where it is.
  if (address == last_address) return;
  for (; reads_counter(address, registers); address += 2) ++counted.instructions;
  last_address = address;
  ++counted.instructions;
  classify(reinterpret_cast<const unsigned char*>(address));
}

// The stack pointer is moved first, past what the compiler may keep beneath it.
inline void set_trap_flag() {
  asm volatile("lea -128(%%rsp), %%rsp\n pushfq\n orq $0x100, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::: "memory", "cc");
}
inline void clear_trap_flag() {
  asm volatile("lea -128(%%rsp), %%rsp\n pushfq\n andq $~0x100, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::: "memory", "cc");
}

template <class Body>
Steps count(Body&& body) {
  struct sigaction mine = {}, former = {};
  mine.sa_sigaction = on_trap;
  mine.sa_flags = SA_SIGINFO;
  sigemptyset(&mine.sa_mask);
  sigaction(SIGTRAP, &mine, &former);
  counted = {};
  last_address = 0;
  counter_at_begin = __rdtsc();
  set_trap_flag();
  body();
  clear_trap_flag();
  const Steps found = counted;
  sigaction(SIGTRAP, &former, nullptr);
  return found;
}

}  // namespace steps_detail

// What `body` executes, less what switching the flag takes.
template <class Body>
Steps count_steps(Body&& body) {
  const Steps nothing = steps_detail::count([] { asm volatile(""); });
  Steps found = steps_detail::count(body);
  found.instructions -= nothing.instructions < found.instructions ? nothing.instructions : found.instructions;
  return found;
}

}  // namespace bench
