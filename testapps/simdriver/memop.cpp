// Stream memory operations: a stream waits for a value in memory, or writes one.
//
// They take no context lock, for a write was seen to answer while another thread held it. A wait polls: the value may come from
// a kernel, from another stream, or from the host.
#include <ctime>

#include "capture.hpp"
#include "entry.hpp"
#include "memory.hpp"

using namespace lgsim;

namespace {

constexpr unsigned kConditionMask = 0x3;

template <class T> bool satisfied(const volatile T *address, T value, unsigned condition) {
  const T now = __atomic_load_n(address, __ATOMIC_ACQUIRE);  // pairs with the write of the value
  switch (condition) {
    case CU_STREAM_WAIT_VALUE_GEQ: return static_cast<std::make_signed_t<T>>(now - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return now == value;
    case CU_STREAM_WAIT_VALUE_AND: return (now & value) != 0;
    default: return static_cast<T>(~(now | value)) != 0;
  }
}

template <class T> std::function<void()> waiter(CUdeviceptr at, T value, unsigned condition) {
  return [=] {
    auto *address = reinterpret_cast<const volatile T *>(at);
    long pause_us = 20;
    while (!satisfied(address, value, condition)) {
      timespec pause{0, pause_us * 1000};
      nanosleep(&pause, nullptr);
      if (pause_us < 500) pause_us += pause_us / 2;
    }
  };
}

template <class T> std::function<void()> writer(CUdeviceptr at, T value) {
  return [=] { __atomic_store_n(reinterpret_cast<volatile T *>(at), value, __ATOMIC_RELEASE); };  // with the load above
}

struct MemOp {
  Op::Kind kind;
  std::function<void()> run;
  CUstreamBatchMemOpParams given{};
};

// As an entry of a list of operations, which is what a captured one becomes.
template <class T> CUstreamBatchMemOpParams given(CUdeviceptr at, T value, unsigned flags, bool waits) {
  constexpr bool wide = sizeof(T) == 8;
  CUstreamBatchMemOpParams one{};
  if (waits) {
    one.waitValue.operation = wide ? CU_STREAM_MEM_OP_WAIT_VALUE_64 : CU_STREAM_MEM_OP_WAIT_VALUE_32;
    one.waitValue.address = at;
    one.waitValue.value64 = value;
    one.waitValue.flags = flags;
  } else {
    one.writeValue.operation = wide ? CU_STREAM_MEM_OP_WRITE_VALUE_64 : CU_STREAM_MEM_OP_WRITE_VALUE_32;
    one.writeValue.address = at;
    one.writeValue.value64 = value;
    one.writeValue.flags = flags;
  }
  return one;
}

template <class T> CUresult wait_step(CUdeviceptr at, T value, unsigned flags, MemOp &step) {
  if (flags & ~(kConditionMask | CU_STREAM_WAIT_VALUE_FLUSH)) return CUDA_ERROR_INVALID_VALUE;
  if (!at || at % sizeof(T) || !device_reaches(at, sizeof(T))) return CUDA_ERROR_INVALID_VALUE;
  step = {Op::Kind::wait, waiter<T>(at, value, flags & kConditionMask), given<T>(at, value, flags, true)};
  return CUDA_SUCCESS;
}

template <class T> CUresult write_step(CUdeviceptr at, T value, unsigned flags, MemOp &step) {
  if (flags & ~static_cast<unsigned>(CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)) return CUDA_ERROR_INVALID_VALUE;
  if (!at || at % sizeof(T) || !device_reaches(at, sizeof(T))) return CUDA_ERROR_INVALID_VALUE;
  step = {Op::Kind::quick, writer<T>(at, value), given<T>(at, value, flags, false)};
  return CUDA_SUCCESS;
}

CUresult batch_step(const CUstreamBatchMemOpParams &p, MemOp &step) {
  switch (static_cast<int>(p.operation)) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return wait_step<cuuint32_t>(p.waitValue.address, p.waitValue.value, p.waitValue.flags, step);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return wait_step<cuuint64_t>(p.waitValue.address, p.waitValue.value64, p.waitValue.flags, step);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return write_step<cuuint32_t>(p.writeValue.address, p.writeValue.value, p.writeValue.flags, step);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return write_step<cuuint64_t>(p.writeValue.address, p.writeValue.value64, p.writeValue.flags, step);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER:
      step = {Op::Kind::marker, {}, p};
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult submit_memops(CUstream handle, bool per_thread, const std::vector<MemOp> &steps) {
  StreamRef stream;
  CUresult r = find_stream(handle, per_thread, stream);
  if (r == CUDA_SUCCESS) r = legacy_call(stream);
  if (r != CUDA_SUCCESS) return r;
  for (const MemOp &step : steps) {
    bool captured = false;
    r = capture_instead(stream, [&] {
          auto node = std::make_shared<Node>();
          node->node_type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
          node->work = step.run;
          node->work_waits = step.kind == Op::Kind::wait;
          node->operations = {step.given};
          node->context = handle_of<CUcontext>(&stream->context);
          return node;
        }, captured);
    if (r != CUDA_SUCCESS) return r;
    if (!captured) submit(stream, make_op(step.kind, step.run));
  }
  return CUDA_SUCCESS;
}

template <class T> CUresult wait_value(CUstream stream, bool per_thread, CUdeviceptr at, T value, unsigned flags) {
  MemOp step{};
  CUresult r = wait_step<T>(at, value, flags, step);
  return r == CUDA_SUCCESS ? submit_memops(stream, per_thread, {step}) : r;
}

template <class T> CUresult write_value(CUstream stream, bool per_thread, CUdeviceptr at, T value, unsigned flags) {
  MemOp step{};
  CUresult r = write_step<T>(at, value, flags, step);
  return r == CUDA_SUCCESS ? submit_memops(stream, per_thread, {step}) : r;
}

CUresult batch(CUstream stream, bool per_thread, unsigned count, const CUstreamBatchMemOpParams *params, unsigned flags) {
  if (!params || !count || count > 256 || flags) return CUDA_ERROR_INVALID_VALUE;
  std::vector<MemOp> steps(count);
  for (unsigned i = 0; i < count; i++) {
    CUresult r = batch_step(params[i], steps[i]);
    if (r != CUDA_SUCCESS) return r;
  }
  return submit_memops(stream, per_thread, steps);
}

}  // namespace

CUresult lgsim::batch_work(unsigned count, const CUstreamBatchMemOpParams *parameters, std::function<void()> &work) {
  if (!parameters || !count || count > 256) return CUDA_ERROR_INVALID_VALUE;
  std::vector<MemOp> steps(count);
  for (unsigned i = 0; i < count; i++) {
    CUresult r = batch_step(parameters[i], steps[i]);
    if (r != CUDA_SUCCESS) return r;
  }
  work = [steps] {
    for (const MemOp &step : steps)
      if (step.run) step.run();
  };
  return CUDA_SUCCESS;
}

#define MEMOP(name, value_type, body, per_thread)                                                  \
  CUresult name(CUstream stream, CUdeviceptr addr, value_type value, unsigned int flags) {         \
    ENTER();                                                                                       \
    return body<value_type>(stream, per_thread, addr, value, flags);                               \
  }
#define MEMOP_ALL(name, value_type, body)       \
  MEMOP(name, value_type, body, false)          \
  MEMOP(name##_ptsz, value_type, body, true)    \
  MEMOP(name##_v2, value_type, body, false)     \
  MEMOP(name##_v2_ptsz, value_type, body, true)

MEMOP_ALL(cuStreamWaitValue32, cuuint32_t, wait_value)
MEMOP_ALL(cuStreamWaitValue64, cuuint64_t, wait_value)
MEMOP_ALL(cuStreamWriteValue32, cuuint32_t, write_value)
MEMOP_ALL(cuStreamWriteValue64, cuuint64_t, write_value)

#define BATCH(name, per_thread)                                                                                          \
  CUresult name(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray, unsigned int flags) {         \
    ENTER();                                                                                                             \
    return batch(stream, per_thread, count, paramArray, flags);                                                          \
  }
BATCH(cuStreamBatchMemOp, false)
BATCH(cuStreamBatchMemOp_ptsz, true)
BATCH(cuStreamBatchMemOp_v2, false)
BATCH(cuStreamBatchMemOp_v2_ptsz, true)
#undef BATCH
