/* Has many files of code mapped, and exits soon after the driver is initialised.
 *
 *   exits_early [MAPPINGS [MICROSECONDS]]
 *
 * MAPPINGS of its own file, every other one of code, and how long after cuInit it exits.
 *
 * bare and guarded: prints the same line, exit 0. Where each mapping of code lies is in the recording. */
#include <fcntl.h>
#include <sys/mman.h>

#include "driver.h"

int main(int argc, char **argv) {
  const int mappings = argc > 1 ? atoi(argv[1]) : 1000;
  const int own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  EXPECT(own >= 0);
  for (int i = 0; i < mappings; i++)
    EXPECT(mmap(NULL, 4096, i % 2 == 0 ? PROT_READ | PROT_EXEC : PROT_READ, MAP_PRIVATE, own, 0) != MAP_FAILED);
  close(own);
  const struct driver d = driver_open();
  CK(d.init(0));
  usleep(argc > 2 ? (useconds_t)atoi(argv[2]) : 0);
  printf("%d mappings\n", mappings);
  return 0;
}
