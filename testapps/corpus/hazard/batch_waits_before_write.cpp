// A batch of memory operations waits for a value of 64 bits that another stream is told to write only afterwards.
// hazard: LG103 call=cuStreamBatchMemOp kernel=- stream=non-blocking
// card: yes
#include "../corpus.hpp"

SCENARIO(batch_waits_before_write) {
  lg::open_session();
  const CUdeviceptr words = lg::device_words(4);
  const CUstream batched = lg::stream(), writes = lg::stream();
  CUstreamBatchMemOpParams operations[2] = {};
  operations[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
  operations[0].waitValue.address = words;
  operations[0].waitValue.value64 = 1ull << 32;
  operations[0].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  operations[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operations[1].writeValue.address = words + 8;
  operations[1].writeValue.value = 1;
  CK(cuStreamBatchMemOp(batched, 2, operations, 0));
  CK(cuStreamWriteValue64(writes, words, 1ull << 33, 0));
  CK(cuStreamSynchronize(batched));
  std::puts("the batch went through");
  return 0;
}
