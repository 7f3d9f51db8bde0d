// Streams, events, memory operations of streams, captures.
#include "atlas.hpp"

namespace atlas {
namespace {

void new_stream(Bench &b) { must(cuStreamCreate(&b.stream, CU_STREAM_NON_BLOCKING)); }

void new_event(Bench &b) { must(cuEventCreate(&b.event2, CU_EVENT_DEFAULT)); }

CUresult batch(Bench &b) {
  static CUstreamBatchMemOpParams p;
  p = {};
  p.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  p.writeValue.address = b.buffer + k4K;
  p.writeValue.value = 1;
  return cuStreamBatchMemOp(b.idle, 1, &p, 0);
}

void CUDA_CB at_stream(CUstream, CUresult, void *) {}

CUresult capture_info(CUstream stream) {
  return cuStreamGetCaptureInfo(stream, out<CUstreamCaptureStatus>(), out<cuuint64_t>(), out<CUgraph>(), out<const CUgraphNode *>(),
                                out<const CUgraphEdgeData *>(), out<size_t>());
}

CUresult exchange_mode() {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  const CUresult result = cuThreadExchangeStreamCaptureMode(&mode);
  cuThreadExchangeStreamCaptureMode(&mode);
  return result;
}

void destroyed_while_busy(Bench &b) {
  new_stream(b);
  b.busy = b.stream;
}

void managed(Bench &b) { must(cuMemAllocManaged(&b.memory, k2M, CU_MEM_ATTACH_GLOBAL)); }

}  // namespace

void stream_calls() {
  CALL(cuStreamCreate, "-", NOTHING, cuStreamCreate(&b.stream, CU_STREAM_NON_BLOCKING));
  CALL(cuStreamCreate, "blocking", NOTHING, cuStreamCreate(&b.stream, CU_STREAM_DEFAULT));
  CALL_ONCE(cuStreamCreateWithPriority, "-", NOTHING, cuStreamCreateWithPriority(&b.stream, CU_STREAM_NON_BLOCKING, -1));
  CALL(cuStreamGetPriority, "-", NOTHING, cuStreamGetPriority(b.idle, out<int>()));
  CALL(cuStreamGetDevice, "-", NOTHING, cuStreamGetDevice(b.idle, out<CUdevice>()));
  CALL(cuStreamGetFlags, "-", NOTHING, cuStreamGetFlags(b.idle, out<unsigned>()));
  CALL(cuStreamGetId, "-", NOTHING, cuStreamGetId(b.idle, out<unsigned long long>()));
  CALL(cuStreamGetCtx, "-", NOTHING, cuStreamGetCtx(b.idle, out<CUcontext>()));
  CALL(cuStreamWaitEvent, "-", NOTHING, cuStreamWaitEvent(b.idle, b.event, 0));
  CALL(cuStreamWaitEvent, "on what is in flight", new_stream(b), cuStreamWaitEvent(b.stream, b.busy_event, 0));
  CALL_ONCE(cuStreamAddCallback, "-", NOTHING, cuStreamAddCallback(b.idle, at_stream, nullptr, 0));
  CALL_ONCE(cuStreamAttachMemAsync, "-", managed(b), cuStreamAttachMemAsync(b.idle, b.memory, 0, CU_MEM_ATTACH_SINGLE));
  CALL(cuStreamQuery, "-", NOTHING, cuStreamQuery(b.idle));
  CALL(cuStreamQuery, "busy", NOTHING, cuStreamQuery(b.busy));
  CALL(cuStreamQuery, "legacy", NOTHING, cuStreamQuery(CU_STREAM_LEGACY));
  CALL(cuStreamSynchronize, "-", NOTHING, cuStreamSynchronize(b.idle));
  CALL(cuStreamSynchronize, "busy", NOTHING, cuStreamSynchronize(b.busy));
  CALL(cuStreamSynchronize, "legacy", NOTHING, cuStreamSynchronize(CU_STREAM_LEGACY));
  CALL(cuStreamDestroy, "-", new_stream(b), cuStreamDestroy(b.stream));
  CALL(cuStreamDestroy, "busy", destroyed_while_busy(b), cuStreamDestroy(b.stream));
  CALL(cuStreamCopyAttributes, "-", new_stream(b), cuStreamCopyAttributes(b.stream, b.idle));
  CALL(cuStreamGetAttribute, "-", NOTHING,
       cuStreamGetAttribute(b.idle, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, out<CUstreamAttrValue>()));
  CALL(cuStreamSetAttribute, "-", (out<CUstreamAttrValue>()->syncPolicy = CU_SYNC_POLICY_AUTO),
       cuStreamSetAttribute(b.idle, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, out<CUstreamAttrValue>()));

  CALL(cuEventCreate, "-", NOTHING, cuEventCreate(&b.event2, CU_EVENT_DEFAULT));
  CALL_ONCE(cuEventCreate, "interprocess", NOTHING, cuEventCreate(&b.event2, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
  CALL(cuEventRecord, "-", new_event(b), cuEventRecord(b.event2, b.idle));
  CALL(cuEventRecordWithFlags, "-", new_event(b), cuEventRecordWithFlags(b.event2, b.idle, 0));
  CALL(cuEventQuery, "-", NOTHING, cuEventQuery(b.event));
  CALL(cuEventQuery, "busy", NOTHING, cuEventQuery(b.busy_event));
  CALL(cuEventSynchronize, "-", NOTHING, cuEventSynchronize(b.event));
  CALL(cuEventSynchronize, "busy", NOTHING, cuEventSynchronize(b.busy_event));
  CALL(cuEventDestroy, "-", new_event(b), cuEventDestroy(b.event2));
  CALL(cuEventElapsedTime, "-", NOTHING, cuEventElapsedTime(out<float>(), b.event, b.event));

  CALL(cuStreamWaitValue32, "-", NOTHING, cuStreamWaitValue32(b.idle, b.buffer + k4K, 0, CU_STREAM_WAIT_VALUE_GEQ));
  CALL(cuStreamWaitValue64, "-", NOTHING, cuStreamWaitValue64(b.idle, b.buffer + k4K, 0, CU_STREAM_WAIT_VALUE_GEQ));
  CALL(cuStreamWriteValue32, "-", NOTHING, cuStreamWriteValue32(b.idle, b.buffer + k4K, 1, 0));
  CALL(cuStreamWriteValue64, "-", NOTHING, cuStreamWriteValue64(b.idle, b.buffer + k4K, 1, 0));
  CALL(cuStreamBatchMemOp, "-", NOTHING, batch(b));

  CALL(cuStreamBeginCapture, "-", new_stream(b), cuStreamBeginCapture(b.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CALL(cuStreamBeginCaptureToGraph, "-", (new_stream(b), b.new_graph()),
       cuStreamBeginCaptureToGraph(b.stream, b.graph, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
  CALL(cuThreadExchangeStreamCaptureMode, "-", NOTHING, exchange_mode());
  CALL(cuStreamEndCapture, "-", b.begin_capture(), cuStreamEndCapture(b.stream, &b.graph));
  CALL(cuStreamIsCapturing, "-", NOTHING, cuStreamIsCapturing(b.idle, out<CUstreamCaptureStatus>()));
  CALL(cuStreamIsCapturing, "legacy", NOTHING, cuStreamIsCapturing(CU_STREAM_LEGACY, out<CUstreamCaptureStatus>()));
  CALL(cuStreamGetCaptureInfo, "-", b.begin_capture(), capture_info(b.stream));
  CALL(cuStreamUpdateCaptureDependencies, "-", b.begin_capture(),
       cuStreamUpdateCaptureDependencies(b.stream, nullptr, nullptr, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
}

}  // namespace atlas
