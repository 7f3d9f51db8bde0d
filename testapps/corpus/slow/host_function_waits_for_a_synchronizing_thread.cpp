// A host function waits for a thread that synchronizes another stream, where a kernel takes one and a half T.
// expect: slow
// card: yes
#include <future>

#include "../corpus.hpp"

SCENARIO(host_function_waits_for_a_synchronizing_thread) {
  const lg::Session session = lg::open_session();
  const CUfunction busy = lg::function(lg::module("corpus"), "busy_for");
  const CUstream hosts = lg::stream(), works = lg::stream();
  CK(lg::launch_one(busy, works, lg::pace_ns(1.5)));
  std::promise<void> promise;
  std::future<void> synchronized = promise.get_future();
  std::thread other = lg::thread_in(session.context, [&] {
    CK(cuStreamSynchronize(works));
    promise.set_value();
  });
  CK(cuLaunchHostFunc(hosts, [](void* data) { static_cast<std::future<void>*>(data)->wait(); }, &synchronized));
  CK(cuStreamSynchronize(hosts));
  other.join();
  std::puts("the host function returned");
  return 0;
}
