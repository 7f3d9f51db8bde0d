// Kernels that were loaded ahead are launched one after the other, each waited for: without that, too, nothing would have been in flight.
// hazard: none
// card: yes
#include "../corpus.hpp"

SCENARIO(kernels_loaded_ahead_in_turn) {
  lg::open_session();
  const lg::MappedWord counter = lg::mapped_word(), flag = lg::mapped_word();
  const CUlibrary code = lg::library("corpus");
  const CUstream first = lg::stream(), second = lg::stream();
  CK(lg::launch_one(lg::kernel(code, "busy_for"), first, lg::ms(50)));
  CK(cuStreamSynchronize(first));
  CK(lg::launch_one(lg::kernel(code, "step"), second, counter.device));
  CK(cuStreamSynchronize(second));
  CK(lg::launch_one(lg::kernel(code, "set_flag"), first, flag.device));
  CK(cuStreamSynchronize(first));
  EXPECT(*counter.host == 1 && *flag.host == 1);
  std::puts("all are done");
  return 0;
}
