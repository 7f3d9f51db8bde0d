// A stream waits for a word of mapped host memory that a signal's handler stores after two T. Its only thread is in a call.
// expect: slow
// card: yes
#include <sys/time.h>

#include <csignal>

#include "../corpus.hpp"

static volatile int* stored_by_a_handler;

SCENARIO(wait_stored_by_a_handler) {
  lg::open_session();
  const lg::MappedWord word = lg::mapped_word();
  stored_by_a_handler = word.host;
  const CUstream waits = lg::stream();
  CK(cuStreamWaitValue32(waits, word.device, 1, CU_STREAM_WAIT_VALUE_GEQ));
  struct sigaction action = {};
  action.sa_handler = [](int) { *stored_by_a_handler = 1; };
  action.sa_flags = SA_RESTART;
  EXPECT(sigaction(SIGALRM, &action, nullptr) == 0);
  const auto late = lg::pace_ns(2) / 1000;
  const itimerval once = {{}, {static_cast<time_t>(late / 1000000), static_cast<suseconds_t>(late % 1000000)}};
  EXPECT(setitimer(ITIMER_REAL, &once, nullptr) == 0);
  CK(cuStreamSynchronize(waits));
  std::puts("the value was stored late");
  return 0;
}
