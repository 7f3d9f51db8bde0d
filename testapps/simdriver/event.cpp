// Events: created, recorded, queried, synchronized, timed.
#include "capture.hpp"
#include "entry.hpp"

using namespace lgsim;

namespace {

CUresult record(CUevent event_handle, CUstream handle, bool per_thread) {
  EventRef event;
  StreamRef stream;
  CUresult r = find_event(event_handle, event);
  if (r == CUDA_SUCCESS) r = find_stream(handle, per_thread, stream);
  if (r == CUDA_SUCCESS) r = legacy_call(stream);
  if (r != CUDA_SUCCESS) return r;
  if (event->context != &stream->context) return CUDA_ERROR_INVALID_HANDLE;
  Shared hold(stream->context.api_lock);
  bool captured = false;
  r = capture_event_record(event, stream, captured);
  if (r != CUDA_SUCCESS || captured) return r;
  OpRef op = make_op(Op::Kind::marker);
  submit(stream, op);
  std::lock_guard<std::mutex> hold_engine(engine_mutex());
  event->recorded = op;
  return CUDA_SUCCESS;
}

CUresult destroy(CUevent handle) {
  EventRef event;
  CUresult r = find_event(handle, event);
  if (r != CUDA_SUCCESS) return r;
  Alone hold(event->context->api_lock);
  return registry().remove<Event>(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// What the event was last recorded as; CUDA_ERROR_CAPTURED_EVENT when that was in a capture.
CUresult recorded_op(CUevent handle, EventRef &event, OpRef &op) {
  CUresult r = find_event(handle, event);
  if (r != CUDA_SUCCESS) return r;
  {
    std::lock_guard<std::mutex> hold(capture_mutex());
    if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
  }
  std::lock_guard<std::mutex> hold(engine_mutex());
  op = event->recorded;
  return CUDA_SUCCESS;
}

CUresult elapsed(float *milliseconds, CUevent start_handle, CUevent end_handle) {
  if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
  EventRef start, end;
  OpRef start_op, end_op;
  CUresult r = recorded_op(start_handle, start, start_op);
  if (r == CUDA_SUCCESS) r = recorded_op(end_handle, end, end_op);
  if (r != CUDA_SUCCESS) return r;
  if (!start_op || !end_op || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard<std::mutex> hold(engine_mutex());
  if (!start_op->done || !end_op->done) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(end_op->completed_ns - start_op->completed_ns) / 1e6f;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags) {
  ENTER();
  constexpr unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (!phEvent || (Flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
  if ((Flags & CU_EVENT_INTERPROCESS) && !(Flags & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_VALUE;
  NEED_CONTEXT(context);
  Alone hold(context->api_lock);
  EventRef event = std::make_shared<Event>(context, Flags);
  registry().add(event);
  *phEvent = handle_of<CUevent>(event);
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent hEvent) {
  ENTER();
  return destroy(hEvent);
}
CUresult cuEventDestroy_v2(CUevent hEvent) {
  ENTER();
  return destroy(hEvent);
}
CUresult cuEventRecord(CUevent hEvent, CUstream hStream) {
  ENTER();
  return record(hEvent, hStream, false);
}
CUresult cuEventRecord_ptsz(CUevent hEvent, CUstream hStream) {
  ENTER();
  return record(hEvent, hStream, true);
}
CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
  ENTER();
  if (flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) return CUDA_ERROR_INVALID_VALUE;
  return record(hEvent, hStream, false);
}
CUresult cuEventRecordWithFlags_ptsz(CUevent hEvent, CUstream hStream, unsigned int flags) {
  ENTER();
  if (flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) return CUDA_ERROR_INVALID_VALUE;
  return record(hEvent, hStream, true);
}
CUresult cuEventQuery(CUevent hEvent) {
  ENTER();
  EventRef event;
  OpRef op;
  CUresult r = recorded_op(hEvent, event, op);
  if (r != CUDA_SUCCESS) return r;
  return is_done(op) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuEventSynchronize(CUevent hEvent) {
  ENTER();
  EventRef event;
  OpRef op;
  CUresult r = recorded_op(hEvent, event, op);
  if (r == CUDA_SUCCESS && op) wait_until_done(op);
  return r == CUDA_SUCCESS ? outcome() : r;
}
CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
  ENTER();
  return elapsed(pMilliseconds, hStart, hEnd);
}
CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
  ENTER();
  return elapsed(pMilliseconds, hStart, hEnd);
}
