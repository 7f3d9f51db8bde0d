/* Trap 11: fork after cuInit, with work done. CUDA does not survive a fork: what the child's calls answer is the driver's business, and
 * the same with a guard. The parent continues unaffected.
 *
 * bare and guarded: prints the same lines, exit 0. */
#include "driver.h"

int main(void) {
  struct job j;
  job_begin(&j);
  CK(job_add(&j, j.stream, 1));
  CK(j.d.stream_synchronize(j.stream));
  fflush(stdout);
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    alarm(10);
    CUdevice device;
    printf("child: cuInit %d\n", (int)j.d.init(0));
    printf("child: cuDeviceGet %d\n", (int)j.d.device_get(&device, 0));
    CUdeviceptr memory;
    printf("child: cuMemAlloc %d\n", (int)j.d.mem_alloc(&memory, 64));
    printf("child: cuLaunchKernel %d\n", (int)job_launch(&j, j.nothing, j.stream, NULL, NULL));
    fflush(stdout);
    _exit(0);
  }
  int status;
  EXPECT(waitpid(child, &status, 0) == child);
  print_wait_status("child", status);
  CK(job_add(&j, j.stream, 2));
  printf("parent: sum %d\n", job_sum(&j));
  job_end(&j);
  return 0;
}
