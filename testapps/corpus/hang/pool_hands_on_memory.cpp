// A pool may not grow. Memory that is freed in the order of one stream, behind a kernel that never ends, is handed on to a second stream, which the
// driver makes wait for the first, without a call that says so. The kernel behind the allocation would end the first one.
// expect: LG299 culprit=spin_until
// reproducer: none, a recording does not have the state of a memory pool
// card: yes
#include "../corpus.hpp"

SCENARIO(pool_hands_on_memory) {
  const lg::Session session = lg::open_session();
  constexpr size_t bytes = 96 << 20;
  const lg::MappedWord stop = lg::mapped_word();
  const CUmodule code = lg::module("corpus");
  const CUfunction spin = lg::function(code, "spin_until"), set = lg::function(code, "set_flag");
  const CUstream first = lg::stream(), second = lg::stream();
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = session.device;
  properties.maxSize = 128 << 20;
  CUmemoryPool pool;
  CK(cuMemPoolCreate(&pool, &properties));
  CUdeviceptr memory, again;
  CK(cuMemAllocFromPoolAsync(&memory, bytes, pool, first));
  CK(cuStreamSynchronize(first));
  CK(lg::launch_one(spin, first, stop.device));
  CK(cuMemFreeAsync(memory, first));
  CK(cuMemAllocFromPoolAsync(&again, bytes, pool, second));
  CK(lg::launch_one(set, second, stop.device));
  CK(cuStreamSynchronize(second));
  std::puts("the kernel was ended");
  return 0;
}
