// A batch of memory operations waits for a value that no other operation writes.
// expect: LG203 culprit=cuStreamBatchMemOp_v2
// card: yes
#include "../corpus.hpp"

SCENARIO(batch_wait) {
  lg::open_session();
  const CUdeviceptr words = lg::device_words(2);
  const CUstream batched = lg::stream(), writes = lg::stream();
  CUstreamBatchMemOpParams operations[2] = {};
  operations[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operations[0].waitValue.address = words;
  operations[0].waitValue.value = 3;
  operations[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  operations[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operations[1].writeValue.address = words + 4;
  operations[1].writeValue.value = 1;
  CK(cuStreamBatchMemOp(batched, 2, operations, 0));
  CK(cuStreamWriteValue32(writes, words, 2, 0));
  CK(cuStreamSynchronize(batched));
  std::puts("the batch went through");
  return 0;
}
