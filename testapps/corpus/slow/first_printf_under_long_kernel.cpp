// The first kernel that prints is launched, loaded before, while a long kernel runs on another stream: the launch does not wait, but what it
// launches starts only once the long kernel has ended.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(first_printf_under_long_kernel) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction busy = lg::function(code, "busy_for"), prints = lg::function(lg::module("corpus_prints"), "prints");
  const CUstream long_one = lg::stream(), printing = lg::stream();
  CK(lg::launch_one(busy, long_one, lg::pace_ns(1.5)));
  CK(lg::launch_one(prints, printing, counter.device));
  CK(cuStreamSynchronize(printing));
  EXPECT(*counter.host == 1);
  CK(cuStreamSynchronize(long_one));
  std::puts("printed nothing, beside a long kernel");
  return 0;
}
