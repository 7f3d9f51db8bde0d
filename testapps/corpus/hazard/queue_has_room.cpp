// Two hundred launches are submitted behind a kernel of a fiftieth of a second, ten times, waited for each time: there is room for them.
// hazard: none
// card: yes
#include "../corpus.hpp"

SCENARIO(queue_has_room) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction busy = lg::function(code, "busy_for"), step = lg::function(code, "step");
  const CUstream only = lg::stream();
  for (int turn = 0; turn < 10; ++turn) {
    CK(lg::launch_one(busy, only, lg::ms(20)));
    for (int i = 0; i < 200; ++i) CK(lg::launch_one(step, only, counter.device));
    CK(cuStreamSynchronize(only));
  }
  EXPECT(*counter.host == 2000);
  std::puts("2000 steps");
  return 0;
}
