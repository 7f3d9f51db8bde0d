// Copies and sets.
#include "atlas.hpp"

namespace atlas {
namespace {

CUDA_MEMCPY2D to_host_2d(const Bench &b) {
  CUDA_MEMCPY2D p{};
  p.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  p.srcDevice = b.buffer;
  p.dstMemoryType = CU_MEMORYTYPE_HOST;
  p.dstHost = b.pinned;
  p.srcPitch = p.dstPitch = p.WidthInBytes = 256;
  p.Height = 4;
  return p;
}

CUDA_MEMCPY3D to_host_3d(const Bench &b) {
  CUDA_MEMCPY3D p{};
  p.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  p.srcDevice = b.buffer;
  p.dstMemoryType = CU_MEMORYTYPE_HOST;
  p.dstHost = b.pinned;
  p.srcPitch = p.dstPitch = p.WidthInBytes = 256;
  p.srcHeight = p.dstHeight = p.Height = 4;
  p.Depth = 1;
  return p;
}

CUDA_MEMCPY3D_PEER to_peer_3d(const Bench &b) {
  CUDA_MEMCPY3D_PEER p{};
  p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  p.srcDevice = b.buffer;
  p.dstDevice = b.buffer + k16M;
  p.srcContext = p.dstContext = b.context;
  p.srcPitch = p.dstPitch = p.WidthInBytes = 256;
  p.srcHeight = p.dstHeight = p.Height = 4;
  p.Depth = 1;
  return p;
}

CUresult batch(Bench &b, CUstream stream) {
  static CUdeviceptr to, from;
  static size_t bytes = k1M, first = 0;
  to = b.buffer;
  from = b.buffer + k16M;
  static CUmemcpyAttributes attributes;
  attributes = {};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  return cuMemcpyBatchAsync(&to, &from, &bytes, 1, &attributes, &first, 1, stream);
}

CUresult batch_3d(Bench &b, CUstream stream) {
  static CUDA_MEMCPY3D_BATCH_OP op;
  op = {};
  op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  op.src.op.ptr.ptr = b.buffer;
  op.dst.op.ptr.ptr = b.buffer + k16M;
  for (auto *operand : {&op.src, &op.dst}) {
    operand->op.ptr.locHint.type = CU_MEM_LOCATION_TYPE_DEVICE;
    operand->op.ptr.locHint.id = b.device;
  }
  op.extent.width = 256;
  op.extent.height = 4;
  op.extent.depth = 1;
  op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  return cuMemcpy3DBatchAsync(1, &op, 0, stream);
}

CUdeviceptr at(const void *host) { return reinterpret_cast<CUdeviceptr>(host); }

}  // namespace

void copy_calls() {
  CALL(cuMemcpy, "-", NOTHING, cuMemcpy(b.buffer, b.buffer + k16M, k4K));
  CALL(cuMemcpy, "to host", NOTHING, cuMemcpy(at(b.pageable.data()), b.buffer, k4K));
  CALL(cuMemcpyPeer, "-", NOTHING, cuMemcpyPeer(b.buffer, b.context, b.buffer + k16M, b.context, k4K));
  CALL(cuMemcpyHtoD, "-", NOTHING, cuMemcpyHtoD(b.buffer, b.pageable.data(), k4K));
  CALL(cuMemcpyHtoD, "pinned", NOTHING, cuMemcpyHtoD(b.buffer, b.pinned, k4K));
  CALL(cuMemcpyDtoH, "-", NOTHING, cuMemcpyDtoH(b.pageable.data(), b.buffer, k4K));
  CALL(cuMemcpyDtoD, "-", NOTHING, cuMemcpyDtoD(b.buffer, b.buffer + k16M, k4K));
  CALL(cuMemcpyDtoA, "-", b.new_array(), cuMemcpyDtoA(b.array, 0, b.buffer, 256));
  CALL(cuMemcpyAtoD, "-", b.new_array(), cuMemcpyAtoD(b.buffer, b.array, 0, 256));
  CALL(cuMemcpyHtoA, "-", b.new_array(), cuMemcpyHtoA(b.array, 0, b.pageable.data(), 256));
  CALL(cuMemcpyAtoH, "-", b.new_array(), cuMemcpyAtoH(b.pageable.data(), b.array, 0, 256));
  CALL(cuMemcpyAtoA, "-", b.new_array(), cuMemcpyAtoA(b.array, 0, b.array, 1024, 256));
  CALL(cuMemcpy2D, "-", NOTHING, cuMemcpy2D(kept(to_host_2d(b))));
  CALL(cuMemcpy2DUnaligned, "-", NOTHING, cuMemcpy2DUnaligned(kept(to_host_2d(b))));
  CALL(cuMemcpy3D, "-", NOTHING, cuMemcpy3D(kept(to_host_3d(b))));
  CALL(cuMemcpy3DPeer, "-", NOTHING, cuMemcpy3DPeer(kept(to_peer_3d(b))));
  CALL(cuMemcpyAsync, "-", NOTHING, cuMemcpyAsync(b.buffer, b.buffer + k16M, k4K, b.idle));
  CALL(cuMemcpyAsync, "to pageable, busy", NOTHING, cuMemcpyAsync(at(b.pageable.data()), b.buffer, k4K, b.busy));
  CALL(cuMemcpyPeerAsync, "-", NOTHING, cuMemcpyPeerAsync(b.buffer, b.context, b.buffer + k16M, b.context, k4K, b.idle));
  CALL(cuMemcpyPeerAsync, "busy", NOTHING, cuMemcpyPeerAsync(b.buffer, b.context, b.buffer + k16M, b.context, k4K, b.busy));
  CALL(cuMemcpyHtoDAsync, "-", NOTHING, cuMemcpyHtoDAsync(b.buffer, b.pinned, k1M, b.idle));
  CALL(cuMemcpyHtoDAsync, "pinned, busy", NOTHING, cuMemcpyHtoDAsync(b.buffer, b.pinned, k1M, b.busy));
  CALL(cuMemcpyHtoDAsync, "pageable", NOTHING, cuMemcpyHtoDAsync(b.buffer, b.pageable.data(), k4K, b.idle));
  CALL(cuMemcpyHtoDAsync, "pageable 4K, busy", NOTHING, cuMemcpyHtoDAsync(b.buffer, b.pageable.data(), k4K, b.busy));
  CALL(cuMemcpyHtoDAsync, "pageable 16M, busy", b.pageable.resize(k16M, 1), cuMemcpyHtoDAsync(b.buffer, b.pageable.data(), k16M, b.busy));
  CALL(cuMemcpyDtoHAsync, "-", NOTHING, cuMemcpyDtoHAsync(b.pinned, b.buffer, k1M, b.idle));
  CALL(cuMemcpyDtoHAsync, "pinned, busy", NOTHING, cuMemcpyDtoHAsync(b.pinned, b.buffer, k1M, b.busy));
  CALL(cuMemcpyDtoHAsync, "pageable", NOTHING, cuMemcpyDtoHAsync(b.pageable.data(), b.buffer, k4K, b.idle));
  CALL(cuMemcpyDtoHAsync, "pageable, busy", NOTHING, cuMemcpyDtoHAsync(b.pageable.data(), b.buffer, k4K, b.busy));
  CALL(cuMemcpyDtoDAsync, "-", NOTHING, cuMemcpyDtoDAsync(b.buffer, b.buffer + k16M, k4K, b.idle));
  CALL(cuMemcpyDtoDAsync, "busy", NOTHING, cuMemcpyDtoDAsync(b.buffer, b.buffer + k16M, k4K, b.busy));
  CALL(cuMemcpyHtoAAsync, "-", b.new_array(), cuMemcpyHtoAAsync(b.array, 0, b.pinned, 256, b.idle));
  CALL(cuMemcpyHtoAAsync, "pageable, busy", b.new_array(), cuMemcpyHtoAAsync(b.array, 0, b.pageable.data(), 256, b.busy));
  CALL(cuMemcpyAtoHAsync, "-", b.new_array(), cuMemcpyAtoHAsync(b.pinned, b.array, 0, 256, b.idle));
  CALL(cuMemcpyAtoHAsync, "pageable, busy", b.new_array(), cuMemcpyAtoHAsync(b.pageable.data(), b.array, 0, 256, b.busy));
  CALL(cuMemcpy2DAsync, "-", NOTHING, cuMemcpy2DAsync(kept(to_host_2d(b)), b.idle));
  CALL(cuMemcpy3DAsync, "-", NOTHING, cuMemcpy3DAsync(kept(to_host_3d(b)), b.idle));
  CALL(cuMemcpy3DPeerAsync, "-", NOTHING, cuMemcpy3DPeerAsync(kept(to_peer_3d(b)), b.idle));
  CALL_ONCE(cuMemcpyBatchAsync, "-", NOTHING, batch(b, b.idle));
  CALL(cuMemcpyBatchAsync, "busy", NOTHING, batch(b, b.busy));
  CALL(cuMemcpy3DBatchAsync, "-", NOTHING, batch_3d(b, b.idle));

  CALL(cuMemsetD8, "-", NOTHING, cuMemsetD8(b.buffer, 0, k4K));
  CALL(cuMemsetD16, "-", NOTHING, cuMemsetD16(b.buffer, 0, k4K));
  CALL(cuMemsetD32, "-", NOTHING, cuMemsetD32(b.buffer, 0, 1024));
  CALL(cuMemsetD32, "managed", (must(cuMemAllocManaged(&b.memory, k2M, CU_MEM_ATTACH_GLOBAL))), cuMemsetD32(b.memory, 0, 1024));
  CALL(cuMemsetD32, "pinned", NOTHING, cuMemsetD32(at(b.pinned), 0, 1024));
  CALL(cuMemsetD2D8, "-", NOTHING, cuMemsetD2D8(b.buffer, 512, 0, 256, 4));
  CALL(cuMemsetD2D16, "-", NOTHING, cuMemsetD2D16(b.buffer, 512, 0, 128, 4));
  CALL(cuMemsetD2D32, "-", NOTHING, cuMemsetD2D32(b.buffer, 512, 0, 64, 4));
  CALL(cuMemsetD8Async, "-", NOTHING, cuMemsetD8Async(b.buffer, 0, k4K, b.idle));
  CALL(cuMemsetD16Async, "-", NOTHING, cuMemsetD16Async(b.buffer, 0, k4K, b.idle));
  CALL(cuMemsetD32Async, "-", NOTHING, cuMemsetD32Async(b.buffer, 0, 1024, b.idle));
  CALL(cuMemsetD32Async, "busy", NOTHING, cuMemsetD32Async(b.buffer, 0, 1024, b.busy));
  CALL(cuMemsetD2D8Async, "-", NOTHING, cuMemsetD2D8Async(b.buffer, 512, 0, 256, 4, b.idle));
  CALL(cuMemsetD2D16Async, "-", NOTHING, cuMemsetD2D16Async(b.buffer, 512, 0, 128, 4, b.idle));
  CALL(cuMemsetD2D32Async, "-", NOTHING, cuMemsetD2D32Async(b.buffer, 512, 0, 64, 4, b.idle));
}

}  // namespace atlas
