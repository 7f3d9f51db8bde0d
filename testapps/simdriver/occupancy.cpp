// Occupancy queries. They load the function they ask about.
#include <algorithm>

#include "entry.hpp"
#include "loading.hpp"

using namespace lgsim;

namespace {

CUresult asked_about(CUfunction handle, FunctionRef &function) {
  NEED_CONTEXT(context);
  CUresult r = loaded_function(*context, handle, function);
  Shared hold(context->api_lock);
  return r;
}

int blocks_per_multiprocessor(const Function &function, int block_threads, size_t dynamic_shared) {
  const size_t shared = dynamic_shared + function.kernel.attributes.static_shared_bytes + 1024;
  if (block_threads > static_cast<int>(function.kernel.attributes.max_threads)) return 0;
  const uint64_t threads = static_cast<uint64_t>(block_threads + 31) / 32 * 32;
  return static_cast<int>(std::min({kBlocksPerMultiprocessor, kThreadsPerMultiprocessor / threads,
                                    static_cast<uint64_t>(228 * 1024 / shared),
                                    65536 / (threads * function.kernel.attributes.registers)}));
}

CUresult active_blocks(int *blocks, CUfunction handle, int block_threads, size_t dynamic_shared) {
  if (!blocks || block_threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  FunctionRef function;
  CUresult r = asked_about(handle, function);
  if (r == CUDA_SUCCESS) *blocks = blocks_per_multiprocessor(*function, block_threads, dynamic_shared);
  return r;
}

CUresult block_size(int *grid, int *block, CUfunction handle, CUoccupancyB2DSize shared_of, size_t dynamic_shared, int limit) {
  if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
  FunctionRef function;
  CUresult r = asked_about(handle, function);
  if (r != CUDA_SUCCESS) return r;
  int best_threads = 0;
  int most = static_cast<int>(function->kernel.attributes.max_threads);
  if (limit > 0) most = std::min(most, limit);
  for (int threads = most / 32 * 32; threads > 0; threads -= 32) {
    const int blocks = blocks_per_multiprocessor(*function, threads, shared_of ? shared_of(threads) : dynamic_shared);
    if (blocks * threads <= best_threads) continue;
    best_threads = blocks * threads;
    *block = threads;
    *grid = blocks * static_cast<int>(kMultiprocessors);
  }
  return best_threads ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize) {
  ENTER();
  return active_blocks(numBlocks, func, blockSize, dynamicSMemSize);
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func, int blockSize,
                                                              size_t dynamicSMemSize, unsigned int flags) {
  ENTER();
  if (flags & ~static_cast<unsigned>(CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)) return CUDA_ERROR_INVALID_VALUE;
  return active_blocks(numBlocks, func, blockSize, dynamicSMemSize);
}
CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
                                          CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                          int blockSizeLimit) {
  ENTER();
  return block_size(minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit);
}
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func,
                                                   CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                                   int blockSizeLimit, unsigned int flags) {
  ENTER();
  if (flags & ~static_cast<unsigned>(CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)) return CUDA_ERROR_INVALID_VALUE;
  return block_size(minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit);
}
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func, int numBlocks, int blockSize) {
  ENTER();
  if (!dynamicSmemSize || numBlocks <= 0 || blockSize <= 0) return CUDA_ERROR_INVALID_VALUE;
  FunctionRef function;
  CUresult r = asked_about(func, function);
  if (r != CUDA_SUCCESS) return r;
  const size_t per_block = 228 * 1024 / static_cast<size_t>(numBlocks);
  const size_t taken = 1024 + function->kernel.attributes.static_shared_bytes;
  *dynamicSmemSize = per_block > taken ? std::min<size_t>(per_block - taken, 227 * 1024) : 0;
  return CUDA_SUCCESS;
}
