// A server that has armed a stream: it waits for a word of mapped memory, and the work of the next request is submitted behind it. No
// request comes for five T: the main thread waits for input, and nobody waits for the stream.
// expect: none
// card: yes
#include <poll.h>
#include <unistd.h>

#include "../corpus.hpp"

SCENARIO(armed_server_idles) {
  lg::open_session();
  const lg::MappedWord doorbell = lg::mapped_word(), counter = lg::mapped_word();
  const CUfunction step = lg::function(lg::module("corpus"), "step");
  const CUstream armed = lg::stream();
  CK(lg::launch_one(step, armed, counter.device));
  CK(cuCtxSynchronize());
  CK(cuStreamWaitValue32(armed, doorbell.device, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CK(lg::launch_one(step, armed, counter.device));
  int requests[2];
  EXPECT(pipe(requests) == 0);
  pollfd input{requests[0], POLLIN, 0};
  poll(&input, 1, static_cast<int>(5 * lg::pace_ms()));
  *doorbell.host = 1;
  CK(cuStreamSynchronize(armed));
  EXPECT(*counter.host == 2);
  std::puts("a request was served");
  return 0;
}
