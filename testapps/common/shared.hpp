// Memory that the ranks of a job share, by the path of a file.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.hpp"

namespace lg {

// Zero at first. It stays mapped.
template <class T>
T* share(const char* path) {
  const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  EXPECT(file >= 0 && ftruncate(file, sizeof(T)) == 0);
  void* memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  EXPECT(memory != MAP_FAILED);
  close(file);
  return static_cast<T*>(memory);
}

}  // namespace lg
