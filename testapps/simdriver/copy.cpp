// Copies and fills of linear memory, in all their forms.
//
// When the host waits. A copy that is not asynchronous waits for itself; on the legacy stream that is for every blocking stream
// before it. An asynchronous copy waits for itself, too, when it touches pageable memory, except a small one to the device, whose
// source is staged. A fill waits for itself when it is not asynchronous and is of managed or of pinned memory.
//
// What is asynchronous shares the context lock and keeps it while it waits; what is not holds it alone.
#include <algorithm>
#include <cstring>

#include "capture.hpp"
#include "entry.hpp"
#include "graph.hpp"
#include "memory.hpp"

namespace lgsim {
namespace {

struct Side {
  uintptr_t base;
  size_t x, y, z, pitch, height;
};

uintptr_t base_of(CUmemorytype type, const void *host, CUdeviceptr device) {
  return type == CU_MEMORYTYPE_HOST ? reinterpret_cast<uintptr_t>(host) : static_cast<uintptr_t>(device);
}

Side source(const CUDA_MEMCPY3D &c) {
  return {base_of(c.srcMemoryType, c.srcHost, c.srcDevice), c.srcXInBytes, c.srcY, c.srcZ, c.srcPitch ? c.srcPitch : c.WidthInBytes,
          c.srcHeight ? c.srcHeight : c.Height};
}
Side target(const CUDA_MEMCPY3D &c) {
  return {base_of(c.dstMemoryType, c.dstHost, c.dstDevice), c.dstXInBytes, c.dstY, c.dstZ, c.dstPitch ? c.dstPitch : c.WidthInBytes,
          c.dstHeight ? c.dstHeight : c.Height};
}
uintptr_t row(const Side &s, size_t y, size_t z) { return s.base + ((s.z + z) * s.height + s.y + y) * s.pitch + s.x; }
size_t extent(const CUDA_MEMCPY3D &c, const Side &s) { return row(s, c.Height - 1, c.Depth - 1) + c.WidthInBytes - row(s, 0, 0); }

bool is_linear(CUmemorytype type) {
  return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

bool pageable(uintptr_t address) {
  Allocation a;
  return !find_allocation(address, a);
}

bool on_device(uintptr_t address) {
  Allocation a;
  return find_allocation(address, a) && a.kind == Memory::device;
}

bool on_device(CUmemorytype type, uintptr_t address) {
  return type == CU_MEMORYTYPE_DEVICE || (type == CU_MEMORYTYPE_UNIFIED && on_device(address));
}

bool side_is_good(CUmemorytype type, uintptr_t at, size_t bytes) {
  if (type == CU_MEMORYTYPE_HOST) return at != 0;
  if (type == CU_MEMORYTYPE_DEVICE) return device_reaches(at, bytes);
  return at && (pageable(at) || device_reaches(at, bytes));
}

}  // namespace

CUresult check_copy(const CUDA_MEMCPY3D &c) {
  if (c.srcMemoryType == CU_MEMORYTYPE_ARRAY || c.dstMemoryType == CU_MEMORYTYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
  if (!is_linear(c.srcMemoryType) || !is_linear(c.dstMemoryType)) return CUDA_ERROR_INVALID_VALUE;
  if (!c.WidthInBytes || !c.Height || !c.Depth) return CUDA_SUCCESS;
  const Side from = source(c), to = target(c);
  if (from.pitch < c.WidthInBytes || to.pitch < c.WidthInBytes) return CUDA_ERROR_INVALID_VALUE;
  if (!side_is_good(c.srcMemoryType, row(from, 0, 0), extent(c, from)) || !side_is_good(c.dstMemoryType, row(to, 0, 0), extent(c, to)))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

void do_copy(const CUDA_MEMCPY3D &c) {
  if (!c.WidthInBytes) return;
  const Side from = source(c), to = target(c);
  for (size_t z = 0; z < c.Depth; z++)
    for (size_t y = 0; y < c.Height; y++)
      memmove(reinterpret_cast<void *>(row(to, y, z)), reinterpret_cast<const void *>(row(from, y, z)), c.WidthInBytes);
}

void do_fill(const CUDA_MEMSET_NODE_PARAMS &f) {
  unsigned char bytes[sizeof f.value];
  memcpy(bytes, &f.value, sizeof bytes);
  const bool alike = std::all_of(bytes, bytes + f.elementSize, [&](unsigned char byte) { return byte == bytes[0]; });
  for (size_t y = 0; y < f.height; y++) {
    auto *at = reinterpret_cast<unsigned char *>(f.dst + y * f.pitch);
    if (alike) {
      memset(at, static_cast<int>(f.value & 0xff), f.width * f.elementSize);
      continue;
    }
    for (size_t x = 0; x < f.width; x++) memcpy(at + x * f.elementSize, &f.value, f.elementSize);
  }
}

}  // namespace lgsim

using namespace lgsim;

namespace {

constexpr size_t kStagedBytes = 1 << 20;  // at least so much was seen to be staged

CUDA_MEMCPY3D linear(CUmemorytype to_type, uintptr_t to, CUmemorytype from_type, uintptr_t from, size_t bytes) {
  CUDA_MEMCPY3D c{};
  c.dstMemoryType = to_type;
  c.dstDevice = to;
  c.dstHost = reinterpret_cast<void *>(to);
  c.srcMemoryType = from_type;
  c.srcDevice = from;
  c.srcHost = reinterpret_cast<const void *>(from);
  c.WidthInBytes = bytes;
  c.Height = c.Depth = 1;
  return c;
}
CUDA_MEMCPY3D host_to_device(CUdeviceptr to, const void *from, size_t bytes) {
  return linear(CU_MEMORYTYPE_DEVICE, to, CU_MEMORYTYPE_HOST, reinterpret_cast<uintptr_t>(from), bytes);
}
CUDA_MEMCPY3D device_to_host(void *to, CUdeviceptr from, size_t bytes) {
  return linear(CU_MEMORYTYPE_HOST, reinterpret_cast<uintptr_t>(to), CU_MEMORYTYPE_DEVICE, from, bytes);
}
CUDA_MEMCPY3D device_to_device(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return linear(CU_MEMORYTYPE_DEVICE, to, CU_MEMORYTYPE_DEVICE, from, bytes);
}
CUDA_MEMCPY3D unified(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return linear(CU_MEMORYTYPE_UNIFIED, to, CU_MEMORYTYPE_UNIFIED, from, bytes);
}
CUDA_MEMCPY3D flat(const CUDA_MEMCPY2D &p) {
  CUDA_MEMCPY3D c{};
  c.srcXInBytes = p.srcXInBytes;
  c.srcY = p.srcY;
  c.srcMemoryType = p.srcMemoryType;
  c.srcHost = p.srcHost;
  c.srcDevice = p.srcDevice;
  c.srcPitch = p.srcPitch;
  c.dstXInBytes = p.dstXInBytes;
  c.dstY = p.dstY;
  c.dstMemoryType = p.dstMemoryType;
  c.dstHost = p.dstHost;
  c.dstDevice = p.dstDevice;
  c.dstPitch = p.dstPitch;
  c.WidthInBytes = p.WidthInBytes;
  c.Height = p.Height;
  c.Depth = 1;
  return c;
}
CUDA_MEMCPY3D from_peer(const CUDA_MEMCPY3D_PEER &p) {
  CUDA_MEMCPY3D c{};
  c.srcXInBytes = p.srcXInBytes;
  c.srcY = p.srcY;
  c.srcZ = p.srcZ;
  c.srcMemoryType = p.srcMemoryType;
  c.srcHost = p.srcHost;
  c.srcDevice = p.srcDevice;
  c.srcPitch = p.srcPitch;
  c.srcHeight = p.srcHeight;
  c.dstXInBytes = p.dstXInBytes;
  c.dstY = p.dstY;
  c.dstZ = p.dstZ;
  c.dstMemoryType = p.dstMemoryType;
  c.dstHost = p.dstHost;
  c.dstDevice = p.dstDevice;
  c.dstPitch = p.dstPitch;
  c.dstHeight = p.dstHeight;
  c.WidthInBytes = p.WidthInBytes;
  c.Height = p.Height;
  c.Depth = p.Depth;
  return c;
}

// A pageable source, copied now and in one piece: the program may change it as soon as the call returns.
struct Staged {
  std::vector<unsigned char> bytes;
  CUDA_MEMCPY3D copy;
};
std::shared_ptr<Staged> stage(const CUDA_MEMCPY3D &c) {
  auto staged = std::make_shared<Staged>();
  staged->bytes.resize(c.WidthInBytes * c.Height * c.Depth);
  CUDA_MEMCPY3D in = c;
  in.dstXInBytes = in.dstY = in.dstZ = 0;
  in.dstMemoryType = CU_MEMORYTYPE_HOST;
  in.dstHost = staged->bytes.data();
  in.dstPitch = c.WidthInBytes;
  in.dstHeight = c.Height;
  do_copy(in);
  staged->copy = c;
  staged->copy.srcXInBytes = staged->copy.srcY = staged->copy.srcZ = 0;
  staged->copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  staged->copy.srcHost = staged->bytes.data();
  staged->copy.srcPitch = c.WidthInBytes;
  staged->copy.srcHeight = c.Height;
  return staged;
}

CUresult copy(const CUDA_MEMCPY3D &c, CUstream handle, bool per_thread, bool asynchronous) {
  StreamRef stream;
  CUresult r = find_stream(handle, per_thread, stream);
  if (r == CUDA_SUCCESS) r = legacy_call(stream);
  if (r == CUDA_SUCCESS) r = check_copy(c);
  if (r != CUDA_SUCCESS) return r;
  Alone alone(stream->context.api_lock, std::defer_lock);
  Shared shared(stream->context.api_lock, std::defer_lock);
  if (asynchronous)
    shared.lock();
  else
    alone.lock();
  bool captured = false;
  r = capture_instead(stream, [&] {
        auto node = std::make_shared<Node>();
        node->node_type = CU_GRAPH_NODE_TYPE_MEMCPY;
        node->copy = c;
        node->work = [c] { do_copy(c); };
        return node;
      }, captured);
  if (r != CUDA_SUCCESS || captured) return r;

  const uintptr_t from = base_of(c.srcMemoryType, c.srcHost, c.srcDevice), to = base_of(c.dstMemoryType, c.dstHost, c.dstDevice);
  const bool from_pageable = pageable(from), to_pageable = pageable(to);
  const bool between_devices = on_device(c.srcMemoryType, from) && on_device(c.dstMemoryType, to);
  if (asynchronous && from_pageable && !to_pageable && c.WidthInBytes * c.Height * c.Depth <= kStagedBytes) {
    // The operation alone has it, and frees it on the thread that has read it.
    submit(stream, make_op(Op::Kind::work, [staged = stage(c)] { do_copy(staged->copy); }));
    return CUDA_SUCCESS;
  }
  OpRef op = make_op(Op::Kind::work, [c] { do_copy(c); });
  submit(stream, op);
  if (asynchronous ? from_pageable || to_pageable : !between_devices) wait_until_done(op);
  return outcome();
}

// Has the stream of the copy that follows wait for all work of both contexts; the host waits for nothing.
CUresult behind_contexts(CUcontext to, CUcontext from, bool per_thread) {
  StreamRef stream;
  CUresult r = find_stream(nullptr, per_thread, stream);
  if (r == CUDA_SUCCESS) r = legacy_call(stream);
  if (r != CUDA_SUCCESS) return r;
  std::vector<OpRef> marks;
  for (CUcontext handle : {to, from}) {
    const auto context = registry().find<Context>(handle);
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    marks.push_back(mark_context(*context));
  }
  submit(stream, make_op(Op::Kind::marker), marks);
  return CUDA_SUCCESS;
}

// Done in no time, on whichever thread finds it ready.
constexpr size_t kSmallFillBytes = 64 << 10;

CUresult fill(CUdeviceptr to, size_t pitch, unsigned value, unsigned element_bytes, size_t width, size_t height, CUstream handle,
              bool per_thread, bool asynchronous) {
  const CUDA_MEMSET_NODE_PARAMS f{to, pitch, value, element_bytes, width, height};
  StreamRef stream;
  CUresult r = find_stream(handle, per_thread, stream);
  if (r == CUDA_SUCCESS) r = legacy_call(stream);
  if (r != CUDA_SUCCESS) return r;
  if (to % element_bytes || (height > 1 && pitch < width * element_bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (width && height && !device_reaches(to, (height - 1) * pitch + width * element_bytes)) return CUDA_ERROR_INVALID_VALUE;
  Alone alone(stream->context.api_lock, std::defer_lock);
  Shared shared(stream->context.api_lock, std::defer_lock);
  if (asynchronous)
    shared.lock();
  else
    alone.lock();
  bool captured = false;
  r = capture_instead(stream, [&] {
        auto node = std::make_shared<Node>();
        node->node_type = CU_GRAPH_NODE_TYPE_MEMSET;
        node->fill = f;
        node->work = [f] { do_fill(f); };
        return node;
      }, captured);
  if (r != CUDA_SUCCESS || captured) return r;
  // A device that is free begins a fill within microseconds. A worker thread may start it milliseconds later, and programs that fill on
  // the legacy stream and continue in another would see results that no card shows.
  const auto kind = width * element_bytes * height <= kSmallFillBytes ? Op::Kind::quick : Op::Kind::work;
  OpRef op = make_op(kind, [f] { do_fill(f); });
  submit(stream, op);
  Allocation a;
  if (!asynchronous && find_allocation(to, a) && a.kind != Memory::device && a.kind != Memory::global) wait_until_done(op);
  return outcome();
}

}  // namespace

// One row each: the legacy and the per-thread form of a call differ in which stream null means, and in nothing else.
#define SYNCHRONOUS(name, parameters, ...)          \
  CUresult name parameters {                        \
    ENTER();                                        \
    return copy(__VA_ARGS__, nullptr, false, false); \
  }                                                 \
  CUresult name##_ptds parameters {                 \
    ENTER();                                        \
    return copy(__VA_ARGS__, nullptr, true, false);  \
  }
#define ASYNCHRONOUS(name, parameters, ...)         \
  CUresult name parameters {                        \
    ENTER();                                        \
    return copy(__VA_ARGS__, hStream, false, true);  \
  }                                                 \
  CUresult name##_ptsz parameters {                 \
    ENTER();                                        \
    return copy(__VA_ARGS__, hStream, true, true);   \
  }
// As above, for the calls that take a description, which may be null.
#define DESCRIBED_SYNCHRONOUS(name, type, convert)             \
  CUresult name(const type *pCopy) {                           \
    ENTER();                                                   \
    if (!pCopy) return CUDA_ERROR_INVALID_VALUE;               \
    return copy(convert(*pCopy), nullptr, false, false);       \
  }                                                            \
  CUresult name##_ptds(const type *pCopy) {                    \
    ENTER();                                                   \
    if (!pCopy) return CUDA_ERROR_INVALID_VALUE;               \
    return copy(convert(*pCopy), nullptr, true, false);        \
  }
#define DESCRIBED_ASYNCHRONOUS(name, type, convert)            \
  CUresult name(const type *pCopy, CUstream hStream) {         \
    ENTER();                                                   \
    if (!pCopy) return CUDA_ERROR_INVALID_VALUE;               \
    return copy(convert(*pCopy), hStream, false, true);        \
  }                                                            \
  CUresult name##_ptsz(const type *pCopy, CUstream hStream) {  \
    ENTER();                                                   \
    if (!pCopy) return CUDA_ERROR_INVALID_VALUE;               \
    return copy(convert(*pCopy), hStream, true, true);         \
  }

// Between two contexts: behind all work of both, asynchronously for the host (documented, and seen on a card).
#define PEER(name, own)                                                                                             \
  CUresult name(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t ByteCount) {                 \
    ENTER();                                                                                                        \
    const CUresult r = to == from ? CUDA_SUCCESS : behind_contexts(to, from, own);                                   \
    return r == CUDA_SUCCESS ? copy(device_to_device(dst, src, ByteCount), nullptr, own, false) : r;                \
  }

SYNCHRONOUS(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount), unified(dst, src, ByteCount))
SYNCHRONOUS(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t ByteCount), host_to_device(dst, src, ByteCount))
SYNCHRONOUS(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t ByteCount), device_to_host(dst, src, ByteCount))
SYNCHRONOUS(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount), device_to_device(dst, src, ByteCount))
PEER(cuMemcpyPeer, false)
PEER(cuMemcpyPeer_ptds, true)
ASYNCHRONOUS(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream), unified(dst, src, ByteCount))
ASYNCHRONOUS(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t ByteCount, CUstream hStream),
             host_to_device(dst, src, ByteCount))
ASYNCHRONOUS(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t ByteCount, CUstream hStream),
             device_to_host(dst, src, ByteCount))
ASYNCHRONOUS(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream),
             device_to_device(dst, src, ByteCount))
ASYNCHRONOUS(cuMemcpyPeerAsync, (CUdeviceptr dst, CUcontext, CUdeviceptr src, CUcontext, size_t ByteCount, CUstream hStream),
             device_to_device(dst, src, ByteCount))
DESCRIBED_SYNCHRONOUS(cuMemcpy2D_v2, CUDA_MEMCPY2D, flat)
DESCRIBED_SYNCHRONOUS(cuMemcpy2DUnaligned_v2, CUDA_MEMCPY2D, flat)
DESCRIBED_SYNCHRONOUS(cuMemcpy3D_v2, CUDA_MEMCPY3D, )
DESCRIBED_SYNCHRONOUS(cuMemcpy3DPeer, CUDA_MEMCPY3D_PEER, from_peer)
DESCRIBED_ASYNCHRONOUS(cuMemcpy2DAsync_v2, CUDA_MEMCPY2D, flat)
DESCRIBED_ASYNCHRONOUS(cuMemcpy3DAsync_v2, CUDA_MEMCPY3D, )
DESCRIBED_ASYNCHRONOUS(cuMemcpy3DPeerAsync, CUDA_MEMCPY3D_PEER, from_peer)

namespace {

// As many copies as there are, one after the other; the first that is refused ends the batch.
CUresult copy_batch(CUdeviceptr *dsts, CUdeviceptr *srcs, const size_t *sizes, size_t count, size_t *failed, CUstream handle,
                    bool per_thread) {
  if (!dsts || !srcs || !sizes || !count) return CUDA_ERROR_INVALID_VALUE;
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_VALUE;  // documented: no legacy stream
  for (size_t i = 0; i < count; i++) {
    const CUresult r = copy(unified(dsts[i], srcs[i], sizes[i]), handle, per_thread, true);
    if (r == CUDA_SUCCESS) continue;
    if (failed) *failed = i;
    return r;
  }
  return CUDA_SUCCESS;
}

}  // namespace

#define BATCH(name, per_thread)                                                                                       \
  CUresult name(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *, size_t *,     \
                size_t, size_t *failIdx, CUstream hStream) {                                                          \
    ENTER();                                                                                                          \
    return copy_batch(dsts, srcs, sizes, count, failIdx, hStream, per_thread);                                        \
  }
BATCH(cuMemcpyBatchAsync, false)
BATCH(cuMemcpyBatchAsync_ptsz, true)
#undef BATCH
#define BATCH(name, per_thread)                                                                                       \
  CUresult name(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *, size_t *,     \
                size_t, CUstream hStream) {                                                                           \
    ENTER();                                                                                                          \
    return copy_batch(dsts, srcs, sizes, count, nullptr, hStream, per_thread);                                        \
  }
BATCH(cuMemcpyBatchAsync_v2, false)
BATCH(cuMemcpyBatchAsync_v2_ptsz, true)
#undef BATCH

#define FILL(bits, value_type)                                                                                               \
  CUresult cuMemsetD##bits##_v2(CUdeviceptr to, value_type value, size_t N) {                                                \
    ENTER();                                                                                                                 \
    return fill(to, 0, value, bits / 8, N, 1, nullptr, false, false);                                                               \
  }                                                                                                                          \
  CUresult cuMemsetD##bits##_v2_ptds(CUdeviceptr to, value_type value, size_t N) {                                           \
    ENTER();                                                                                                                 \
    return fill(to, 0, value, bits / 8, N, 1, nullptr, true, false);                                                                \
  }                                                                                                                          \
  CUresult cuMemsetD##bits##Async(CUdeviceptr to, value_type value, size_t N, CUstream hStream) {                            \
    ENTER();                                                                                                                 \
    return fill(to, 0, value, bits / 8, N, 1, hStream, false, true);                                                               \
  }                                                                                                                          \
  CUresult cuMemsetD##bits##Async_ptsz(CUdeviceptr to, value_type value, size_t N, CUstream hStream) {                       \
    ENTER();                                                                                                                 \
    return fill(to, 0, value, bits / 8, N, 1, hStream, true, true);                                                                \
  }                                                                                                                          \
  CUresult cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, value_type value, size_t Width, size_t Height) {             \
    ENTER();                                                                                                                 \
    return fill(to, pitch, value, bits / 8, Width, Height, nullptr, false, false);                                                  \
  }                                                                                                                          \
  CUresult cuMemsetD2D##bits##_v2_ptds(CUdeviceptr to, size_t pitch, value_type value, size_t Width, size_t Height) {        \
    ENTER();                                                                                                                 \
    return fill(to, pitch, value, bits / 8, Width, Height, nullptr, true, false);                                                   \
  }                                                                                                                          \
  CUresult cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, value_type value, size_t Width, size_t Height,             \
                                    CUstream hStream) {                                                                      \
    ENTER();                                                                                                                 \
    return fill(to, pitch, value, bits / 8, Width, Height, hStream, false, true);                                                  \
  }                                                                                                                          \
  CUresult cuMemsetD2D##bits##Async_ptsz(CUdeviceptr to, size_t pitch, value_type value, size_t Width, size_t Height,        \
                                         CUstream hStream) {                                                                 \
    ENTER();                                                                                                                 \
    return fill(to, pitch, value, bits / 8, Width, Height, hStream, true, true);                                                   \
  }
FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned int)
