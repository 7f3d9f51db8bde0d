// The vendor's own ways to watch launches, for comparison: what a tool pays that is built on CUPTI.
//
// The driver loads this library by CUDA_INJECTION64_PATH. BENCH_CUPTI says which way, and nothing else is switched on:
//   callback   a callback at the entry and the exit of every driver launch, which keeps the time of each in a ring
//   activity   a record for every kernel (CONCURRENT_KERNEL), counted and thrown away
// At the end of the process one line on standard error says how many launches were seen, so that a way that saw none is not mistaken for
// a cheap one. scripts/bench builds it where it measures, against the CUPTI that is there.
#include <cupti.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

constexpr size_t kBufferBytes = 8 << 20;
constexpr unsigned kRing = 1 << 14;

struct Times {
  uint64_t entered, left;
};

struct Ring {
  Times times[kRing];
  unsigned next = 0;
};

std::atomic<unsigned long> seen{0}, dropped{0};
CUpti_SubscriberHandle subscriber;
bool activity = false;

bool works(CUptiResult result, const char* what) {
  if (result == CUPTI_SUCCESS) return true;
  const char* text = "unknown";
  cuptiGetResultString(result, &text);
  std::fprintf(stderr, "bench_cupti: %s: %s\n", what, text);
  return false;
}
#define WORKS(call) works((call), #call)

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

void CUPTIAPI on_launch(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void* data) {
  static thread_local Ring ring;
  const auto* call = static_cast<const CUpti_CallbackData*>(data);
  Times& times = ring.times[ring.next];
  if (call->callbackSite == CUPTI_API_ENTER) {
    times.entered = now_ns();
    return;
  }
  times.left = now_ns();
  ring.next = (ring.next + 1) % kRing;
  // Not an increment: the count is one thread's business here, and a locked instruction would be this program's cost and not CUPTI's.
  seen.store(seen.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(64, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  unsigned long found = 0;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) ++found;
  seen += found;
  size_t lost = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS) dropped += lost;
  std::free(buffer);
}

void say() {
  if (activity) WORKS(cuptiActivityFlushAll(1));
  std::fprintf(stderr, "bench_cupti: seen=%lu dropped=%lu\n", seen.load(), dropped.load());
}

bool begin(const char* way) {
  if (std::strcmp(way, "activity") == 0) {
    activity = true;
    return WORKS(cuptiActivityRegisterCallbacks(give_buffer, take_buffer)) && WORKS(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  }
  if (std::strcmp(way, "callback") != 0 || !WORKS(cuptiSubscribe(&subscriber, on_launch, nullptr))) return false;
  // Every form in which the driver and the runtime launch.
  for (const CUpti_driver_api_trace_cbid form : {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
                                                 CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz})
    if (!WORKS(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, form))) return false;
  return true;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* way = std::getenv("BENCH_CUPTI");
  if (way == nullptr || !begin(way)) return 0;
  std::atexit(say);
  return 1;
}
