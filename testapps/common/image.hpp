// Reads the device code of a program: NAME.host.so for the simulated driver, NAME.fatbin for a real one.
//
// The device's name decides, because it is the one thing that is known before anything is loaded. Must not keep or interpret the image:
// what is in it is the driver's business.
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

// For the programs that link the driver directly; the others pass the name they asked for themselves.
inline std::vector<char> image(const std::string& name) {
  char device_name[256] = "";
  CK(cuDeviceGetName(device_name, sizeof device_name, 0));
  return image(name, device_name);
}

}  // namespace lg
