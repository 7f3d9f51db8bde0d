// Streams: created, destroyed, synchronized, queried, made to wait, called back from.
//
// Queries, synchronizes and waits for an event take no context lock: they answer, or wait, while another thread holds it.
#include "capture.hpp"
#include "entry.hpp"

using namespace lgsim;

namespace {

CUresult create(CUstream *result, unsigned flags, int priority) {
  if (!result) return CUDA_ERROR_INVALID_VALUE;
  if (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) return CUDA_ERROR_INVALID_VALUE;
  NEED_CONTEXT(context);
  Alone hold(context->api_lock);
  StreamRef stream = make_stream(*context, flags, priority > 0 ? 0 : priority < -5 ? -5 : priority);
  registry().add(stream);
  *result = handle_of<CUstream>(stream);
  return CUDA_SUCCESS;
}

CUresult destroy(CUstream handle) {
  if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) return CUDA_ERROR_INVALID_HANDLE;
  StreamRef stream = registry().find<Stream>(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  Alone hold_context(stream->context.api_lock);
  if (!registry().remove<Stream>(handle)) return CUDA_ERROR_INVALID_HANDLE;
  // Returns at once; operations in flight in the stream continue.
  std::lock_guard<std::mutex> hold(engine_mutex());
  stream->destroyed = true;
  return CUDA_SUCCESS;
}

CUresult synchronize(CUstream handle, bool per_thread) {
  StreamRef stream;
  CUresult r = find_stream(handle, per_thread, stream);
  if (r == CUDA_SUCCESS && is_capturing(stream)) r = whole_context_call(stream->context);
  if (r == CUDA_SUCCESS) r = legacy_call(stream);
  if (r == CUDA_SUCCESS) r = unsafe_call();
  if (r != CUDA_SUCCESS) return r;
  wait_until_done(mark_stream(stream));
  return outcome();
}

CUresult query(CUstream handle, bool per_thread) {
  StreamRef stream;
  CUresult r = find_stream(handle, per_thread, stream);
  if (r == CUDA_SUCCESS && is_capturing(stream)) r = whole_context_call(stream->context);
  if (r == CUDA_SUCCESS) r = legacy_call(stream);
  if (r == CUDA_SUCCESS) r = unsafe_call();
  if (r != CUDA_SUCCESS) return r;
  std::lock_guard<std::mutex> hold(engine_mutex());
  bool busy = stream->depth != 0;
  if (stream->legacy)
    for (const StreamRef &other : stream->context.streams) busy = busy || (other->blocking() && other->depth);
  return busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult wait_event(CUstream handle, bool per_thread, CUevent event_handle, unsigned flags) {
  if (flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  EventRef event;
  CUresult r = find_stream(handle, per_thread, stream);
  if (r == CUDA_SUCCESS) r = find_event(event_handle, event);
  if (r == CUDA_SUCCESS) r = legacy_call(stream);
  if (r != CUDA_SUCCESS) return r;
  bool captured = false;
  r = capture_event_wait(stream, event, captured);
  if (r != CUDA_SUCCESS || captured) return r;
  OpRef recorded;
  {
    std::lock_guard<std::mutex> hold_engine(engine_mutex());
    recorded = event->recorded;
  }
  if (recorded) submit(stream, make_op(Op::Kind::marker), {recorded});
  return CUDA_SUCCESS;
}

CUresult add_callback(CUstream handle, bool per_thread, CUstreamCallback callback, void *data, unsigned flags) {
  if (!callback || flags) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  CUresult r = find_stream(handle, per_thread, stream);
  if (r == CUDA_SUCCESS) r = legacy_call(stream);
  if (r != CUDA_SUCCESS) return r;
  if (is_capturing(stream)) return whole_context_call(stream->context);
  Alone hold(stream->context.api_lock);
  submit(stream, make_op(Op::Kind::work, [=, context = &stream->context] {
           run_host_function(context, [=] { callback(handle, CUDA_SUCCESS, data); });
         }));
  return CUDA_SUCCESS;
}

// Runs f with the stream a handle means, for the calls that only look.
template <class F> CUresult with_stream(CUstream handle, bool per_thread, const void *result, F f) {
  if (!result) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  CUresult r = find_stream(handle, per_thread, stream);
  if (r == CUDA_SUCCESS) f(*stream);
  return r;
}

CUresult attach(CUstream handle, bool per_thread, CUdeviceptr address) {
  if (!address) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  CUresult r = find_stream(handle, per_thread, stream);
  if (r != CUDA_SUCCESS) return r;
  Shared hold(stream->context.api_lock);
  submit(stream, make_op(Op::Kind::marker));
  return CUDA_SUCCESS;
}

CUresult set_attribute(CUstream handle, bool per_thread, int attribute, const CUstreamAttrValue *value) {
  return with_stream(handle, per_thread, value, [&](Stream &s) {
    Alone hold_context(s.context.api_lock);
    std::lock_guard<std::mutex> hold(engine_mutex());
    s.attributes[attribute] = *value;
  });
}

CUresult get_attribute(CUstream handle, bool per_thread, int attribute, CUstreamAttrValue *value) {
  return with_stream(handle, per_thread, value, [&](Stream &s) {
    Alone hold_context(s.context.api_lock);
    std::lock_guard<std::mutex> hold(engine_mutex());
    auto it = s.attributes.find(attribute);
    *value = it == s.attributes.end() ? CUstreamAttrValue{} : it->second;
  });
}

CUresult copy_attributes(CUstream to_handle, CUstream from_handle, bool per_thread) {
  StreamRef to, from;
  CUresult r = find_stream(to_handle, per_thread, to);
  if (r == CUDA_SUCCESS) r = find_stream(from_handle, per_thread, from);
  if (r != CUDA_SUCCESS) return r;
  std::lock_guard<std::mutex> hold(engine_mutex());
  to->attributes = from->attributes;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags) {
  ENTER();
  return create(phStream, Flags, 0);
}
CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority) {
  ENTER();
  return create(phStream, flags, priority);
}
CUresult cuStreamDestroy(CUstream hStream) {
  ENTER();
  return destroy(hStream);
}
CUresult cuStreamDestroy_v2(CUstream hStream) {
  ENTER();
  return destroy(hStream);
}

#define BOTH(name, parameters, legacy, per_thread) \
   CUresult name parameters {                     \
    ENTER();                                       \
    return legacy;                                 \
  }                                                \
  CUresult name##_ptsz parameters {                \
    ENTER();                                       \
    return per_thread;                             \
  }

BOTH(cuStreamSynchronize, (CUstream hStream), synchronize(hStream, false), synchronize(hStream, true))
BOTH(cuStreamQuery, (CUstream hStream), query(hStream, false), query(hStream, true))
BOTH(cuStreamWaitEvent, (CUstream hStream, CUevent hEvent, unsigned int Flags), wait_event(hStream, false, hEvent, Flags),
     wait_event(hStream, true, hEvent, Flags))
BOTH(cuStreamAddCallback, (CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags),
     add_callback(hStream, false, callback, userData, flags), add_callback(hStream, true, callback, userData, flags))
BOTH(cuStreamGetPriority, (CUstream hStream, int *priority),
     with_stream(hStream, false, priority, [&](Stream &s) { *priority = s.priority; }),
     with_stream(hStream, true, priority, [&](Stream &s) { *priority = s.priority; }))
BOTH(cuStreamGetFlags, (CUstream hStream, unsigned int *flags),
     with_stream(hStream, false, flags, [&](Stream &s) { *flags = s.flags; }),
     with_stream(hStream, true, flags, [&](Stream &s) { *flags = s.flags; }))
BOTH(cuStreamGetId, (CUstream hStream, unsigned long long *streamId),
     with_stream(hStream, false, streamId, [&](Stream &s) { *streamId = s.id; }),
     with_stream(hStream, true, streamId, [&](Stream &s) { *streamId = s.id; }))
BOTH(cuStreamGetCtx, (CUstream hStream, CUcontext *pctx),
     with_stream(hStream, false, pctx, [&](Stream &s) { *pctx = handle_of<CUcontext>(&s.context); }),
     with_stream(hStream, true, pctx, [&](Stream &s) { *pctx = handle_of<CUcontext>(&s.context); }))
BOTH(cuStreamGetDevice, (CUstream hStream, CUdevice *device),
     with_stream(hStream, false, device, [&](Stream &) { *device = 0; }),
     with_stream(hStream, true, device, [&](Stream &) { *device = 0; }))
BOTH(cuStreamAttachMemAsync, (CUstream hStream, CUdeviceptr dptr, size_t, unsigned int), attach(hStream, false, dptr),
     attach(hStream, true, dptr))

BOTH(cuStreamSetAttribute, (CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value),
     set_attribute(hStream, false, attr, value), set_attribute(hStream, true, attr, value))
BOTH(cuStreamGetAttribute, (CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out),
     get_attribute(hStream, false, attr, value_out), get_attribute(hStream, true, attr, value_out))
BOTH(cuStreamCopyAttributes, (CUstream dst, CUstream src), copy_attributes(dst, src, false), copy_attributes(dst, src, true))
#undef BOTH

CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx) {
  ENTER();
  if (pGreenCtx) *pGreenCtx = nullptr;
  return with_stream(hStream, false, pCtx, [&](Stream &s) { *pCtx = handle_of<CUcontext>(&s.context); });
}
CUresult cuStreamGetCtx_v2_ptsz(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx) {
  ENTER();
  if (pGreenCtx) *pGreenCtx = nullptr;
  return with_stream(hStream, true, pCtx, [&](Stream &s) { *pCtx = handle_of<CUcontext>(&s.context); });
}
