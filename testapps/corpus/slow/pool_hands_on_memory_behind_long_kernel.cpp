// A pool may not grow. Memory that is freed in the order of one stream, behind a kernel of two T, is handed on to a second stream, which the driver makes
// wait for the first.
// expect: slow
// card: yes
#include "../corpus.hpp"

SCENARIO(pool_hands_on_memory_behind_long_kernel) {
  const lg::Session session = lg::open_session();
  constexpr size_t bytes = 96 << 20;
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
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
  CK(lg::launch_one(busy, first, lg::pace_ns(2)));
  CK(cuMemFreeAsync(memory, first));
  CK(cuMemAllocFromPoolAsync(&again, bytes, pool, second));
  CK(lg::launch_one(busy, second, lg::ms(1)));
  CK(cuStreamSynchronize(second));
  CK(cuMemFreeAsync(again, second));
  CK(cuStreamSynchronize(second));
  std::puts("both ended");
  return 0;
}
