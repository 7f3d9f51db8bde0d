// An order of a program's steps and of the ends of its kernels, drawn from a seed: the same seed draws the same from the same choices.
//
// Even seeds draw from all alike. Odd ones make the order that a lucky run does not have: they let a kernel end only when nothing else can move (1 of 4),
// or go on with one thread for as long as it can move, by ranks that now and then change (3 of 4).
//
// Must not know what a step does.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace lg {

// What can move next: a thread of the program, or a kernel, which can end, by the line of its step.
struct Choice {
  bool is_kernel;
  uint64_t number;
};

class Order {
 public:
  explicit Order(uint64_t seed) : kind_(seed % 4), state_(seed * 0x9e3779b97f4a7c15u) {}

  // The place of the next among choices, of which there is at least one.
  size_t next(const std::vector<Choice>& choices) {
    std::vector<size_t> from;
    for (size_t at = 0; at < choices.size(); at++)
      if (kind_ % 2 == 0 || !choices[at].is_kernel) from.push_back(at);
    if (from.empty()) return below(choices.size());
    if (kind_ != 3) return from[below(from.size())];
    if (below(kChangesOneIn) == 0) ranks_.clear();
    size_t first = from[0];
    for (const size_t at : from)
      if (rank(choices[at].number) < rank(choices[first].number)) first = at;
    return first;
  }

 private:
  static constexpr uint64_t kChangesOneIn = 6;

  uint64_t rank(uint64_t thread) {
    const auto found = ranks_.find(thread);
    return found != ranks_.end() ? found->second : ranks_[thread] = drawn();
  }
  uint64_t below(uint64_t most) { return drawn() % most; }
  // SplitMix64.
  uint64_t drawn() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  uint64_t kind_;
  uint64_t state_;
  std::map<uint64_t, uint64_t> ranks_;
};

}  // namespace lg
