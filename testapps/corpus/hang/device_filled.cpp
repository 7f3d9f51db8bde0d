// A spinning grid fills every multiprocessor, and the kernel that would end it, loaded and on a stream of its own, finds no place
// to start.
// expect: LG206 culprit=fill_and_spin
// card: yes, alone
#include "../corpus.hpp"

SCENARIO(device_filled) {
  lg::open_session();
  const lg::MappedWord flag = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction fill = lg::function(code, "fill_and_spin"), set = lg::function(code, "set_flag");
  const CUstream filled = lg::stream(), other = lg::stream();
  CK(lg::launch_everywhere(fill, filled, flag.device));
  lg::head_start();
  CK(lg::launch_one(set, other, flag.device));
  CK(cuStreamSynchronize(other));
  std::puts("the flag was set");
  return 0;
}
