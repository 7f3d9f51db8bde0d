// A grid as large as the device stands behind a value that is written after two T, and a kernel of one and a half T runs on a stream beside it: the grid
// has not started, so it keeps nothing from starting.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(grid_behind_a_wait_fills_nothing) {
  lg::open_session();
  const lg::MappedWord flag = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction fill = lg::function(code, "fill_and_spin"), busy = lg::function(code, "busy_for");
  const CUdeviceptr word = lg::device_words(1);
  const CUstream behind = lg::stream(), beside = lg::stream(), writes = lg::stream();
  *flag.host = 1;
  CK(cuStreamWaitValue32(behind, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(lg::launch_everywhere(fill, behind, flag.device));
  CK(lg::launch_one(busy, beside, lg::pace_ns(1.5)));
  CK(cuStreamSynchronize(beside));
  CK(cuStreamWriteValue32(writes, word, 1, 0));
  CK(cuCtxSynchronize());
  std::puts("the grid ran");
  return 0;
}
