# A stream waits for a value; before CuPy submits the kernel that writes it, that kernel is loaded, as it was not used before.
# code: LG202
# culprit: cuStreamWaitValue32(_v2)?
# needs: cupy
# with-profile: completes
import cupy
import persistent

words = cupy.zeros(4, dtype=cupy.uint32)
consumer, producer = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
cupy.cuda.Device().synchronize()
persistent.wait_for_value(consumer.ptr, words.data.ptr, 1)
with producer:
    words += 1
consumer.synchronize()
print(words.tolist())
