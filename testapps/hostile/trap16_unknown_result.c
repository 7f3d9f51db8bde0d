/* Trap 16: an unknown result code passes through as the number it is. This makes the simulated driver return some:
 * LGSIM_FAIL="cuMemAlloc_v2=9999,cuStreamQuery=-5".
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

int main(void) {
  struct driver d = driver_open();
  CUdevice device;
  CUcontext context;
  CUstream stream;
  CUdeviceptr memory = 0;
  CK(d.init(0));
  CK(d.device_get(&device, 0));
  CK(d.primary_retain(&context, device));
  CK(d.set_current(context));
  CK(d.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < 3; i++) printf("cuMemAlloc: %d, memory %s\n", (int)d.mem_alloc(&memory, 64), memory == 0 ? "null" : "not null");
  printf("cuStreamQuery: %d\n", (int)d.stream_query(stream));
  printf("cuStreamSynchronize: %d\n", (int)d.stream_synchronize(stream));
  return 0;
}
