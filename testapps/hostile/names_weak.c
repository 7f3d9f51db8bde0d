/* A program that is linked with no driver has weak references to functions of the driver and of NCCL, by call and as data. By them it knows whether there
 * is one.
 *
 * bare and guarded: prints the same line, exit 0. */
#include <stdio.h>

extern int cuInit(unsigned) __attribute__((weak));
extern int cuLaunchKernel() __attribute__((weak));
extern int ncclCommInitRank() __attribute__((weak));
static int (*table[])() = {cuLaunchKernel, ncclCommInitRank};

int main(void) {
  printf("%s %s %s\n", cuInit ? "driver" : "none", table[0] ? "driver" : "none", table[1] ? "NCCL" : "none");
  return 0;
}
