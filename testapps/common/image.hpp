// Reads the device code of a program: NAME.host.so for the simulated driver, NAME.fatbin for a real one.
//
// The device's name decides, because it is the one thing that is known before anything is loaded. Must not keep the image, or look further
// into it than to its first bytes: what is in it is the driver's business.
#pragma once
#include <sys/auxv.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "check.hpp"

namespace lg {

inline std::string folder_of_executable() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  // Where there is no /proc, the name by which the program was started.
  const std::string whole = n > 0 ? std::string(path, static_cast<size_t>(n)) : reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  return whole.substr(0, whole.rfind('/'));
}

inline std::vector<char> image(const std::string& name, const char* device_name) {
  const bool simulated = std::strncmp(device_name, "Simulated", 9) == 0;
  const std::string path = folder_of_executable() + "/../kernels/" + name + (simulated ? ".host.so" : ".fatbin");
  FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    std::fprintf(stderr, "cannot open %s\n", path.c_str());
    std::_Exit(4);
  }
  std::vector<char> bytes;
  char chunk[65536];
  for (size_t n; (n = std::fread(chunk, 1, sizeof chunk, file)) > 0;) bytes.insert(bytes.end(), chunk, chunk + n);
  std::fclose(file);
  return bytes;
}

// The same as a fat binary: the real images are one, the simulated driver's become one with a single entry.
inline std::vector<char> as_fat_binary(const std::vector<char>& image) {
  struct {
    unsigned magic;
    unsigned short version, head_bytes;
    unsigned long long bytes;
  } head;
  struct {
    unsigned short kind, version;
    unsigned head_bytes;
    unsigned long long bytes;
  } code;
  if (std::memcmp(image.data(), "\177ELF", 4) != 0) return image;
  code = {2, 1, sizeof code, image.size()};
  head = {0xba55ed50, 1, sizeof head, sizeof code + image.size()};
  std::vector<char> bytes(sizeof head + head.bytes);
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, &code, sizeof code);
  std::memcpy(bytes.data() + sizeof head + sizeof code, image.data(), image.size());
  return bytes;
}

// What compilers leave in .nvFatBinSegment for each translation unit: a reference to its fat binary.
struct FatbinWrapper {
  int magic;
  int version;
  const void* data;
  void* unused;
};
static_assert(sizeof(FatbinWrapper) == 24, "the size by which wrappers are counted");

// For the programs that link the driver directly; the others pass the name they asked for themselves.
inline std::vector<char> image(const std::string& name) {
  char device_name[256] = "";
  CK(cuDeviceGetName(device_name, sizeof device_name, 0));
  return image(name, device_name);
}

}  // namespace lg
