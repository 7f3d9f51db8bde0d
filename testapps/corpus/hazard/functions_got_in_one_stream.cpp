// Functions of a module are got, and so loaded, while a kernel runs on the only stream that is used: each load puts a barrier where the
// order of the stream has one anyway.
// hazard: none
// env: LAZYGUARD_PRELOAD=off
// card: yes
#include "../corpus.hpp"

SCENARIO(functions_got_in_one_stream) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUstream only = lg::stream();
  CK(lg::launch_one(lg::function(code, "busy_for"), only, lg::ms(100)));
  CK(lg::launch_one(lg::function(code, "step"), only, counter.device));
  CK(cuStreamSynchronize(only));
  EXPECT(*counter.host == 1);
  std::puts("both are done");
  return 0;
}
