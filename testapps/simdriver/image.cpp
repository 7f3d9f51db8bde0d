// Reading what a program hands to a load call: a kernel file compiled for the host, or PTX, of which the simulated compiler knows
// two bodies. Anything else answers what the real driver answers to an image that is not for this device.
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "entry.hpp"
#include "loading.hpp"

namespace lgsim {

void *open_object(const std::string &bytes);

namespace {

constexpr uint32_t kFatbinMagic = 0xBA55ED50;
constexpr uint32_t kFatbinWrapperMagic = 0x466243B1;
constexpr uint16_t kMachineCode = 2;
// The machine code that the simulated cards run is the host's.
#if defined(__aarch64__)
constexpr uint16_t kHostMachine = EM_AARCH64;
#else
constexpr uint16_t kHostMachine = EM_X86_64;
#endif

size_t elf_bytes(const Elf64_Ehdr &header, const char *data) {
  size_t end = header.e_shoff + static_cast<size_t>(header.e_shnum) * header.e_shentsize;
  auto *sections = reinterpret_cast<const Elf64_Shdr *>(data + header.e_shoff);
  for (unsigned i = 0; i < header.e_shnum; i++)
    if (sections[i].sh_type != SHT_NOBITS) end = std::max<size_t>(end, sections[i].sh_offset + sections[i].sh_size);
  return end;
}

// A path for dlopen that no earlier call has used: the loader takes a name that it knows for the object it knows, and descriptor
// numbers come back. The dots spell a counter and change nothing about where the path leads.
std::string unique_path(int fd) {
  static std::atomic<uint64_t> counter{0};
  uint64_t number = counter.fetch_add(1, std::memory_order_relaxed);
  std::string path = "/proc/self/";
  for (; number; number >>= 1) path += (number & 1) ? "./" : "/";
  return path + "fd/" + std::to_string(fd);
}

CUresult list_kernels(Image &image) {
  void *object = open_object(image.bytes);
  if (!object) return CUDA_ERROR_INVALID_IMAGE;
  auto *table = static_cast<const lgsim_kernel *>(dlsym(object, LGSIM_TABLE_SYMBOL));
  if (!table) {
    dlclose(object);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  for (; table->name; table++) {
    KernelInfo kernel;
    kernel.name = table->name;
    kernel.sizes.assign(table->parameter_sizes, table->parameter_sizes + table->parameter_count);
    kernel.offsets.assign(table->parameter_offsets, table->parameter_offsets + table->parameter_count);
    kernel.parameter_bytes = table->parameter_offsets[table->parameter_count];
    kernel.attributes = table->attributes;
    image.kernels.push_back(std::move(kernel));
  }
  dlclose(object);
  return CUDA_SUCCESS;
}

// Splits PTX into words, dropping comments; ( ) { } , ; are words of their own.
std::vector<std::string> ptx_words(const std::string &text) {
  std::vector<std::string> words;
  std::string word;
  auto flush = [&] {
    if (!word.empty()) words.push_back(word);
    word.clear();
  };
  for (size_t i = 0; i < text.size(); i++) {
    if (!text.compare(i, 2, "//")) {
      while (i < text.size() && text[i] != '\n') i++;
      flush();
    } else if (!text.compare(i, 2, "/*")) {
      size_t end = text.find("*/", i + 2);
      i = end == std::string::npos ? text.size() : end + 1;
      flush();
    } else if (strchr("(){},;", text[i])) {
      flush();
      words.push_back(std::string(1, text[i]));
    } else if (isspace(static_cast<unsigned char>(text[i]))) {
      flush();
    } else {
      word += text[i];
    }
  }
  flush();
  return words;
}

void do_nothing(const lgsim_grid &, size_t, size_t, void **) {}

// Spins until the word at its first parameter is not zero.
void spin(const lgsim_grid &, size_t, size_t, void **parameters) {
  const volatile int *flag = *static_cast<const volatile int *const *>(parameters[0]);
  while (*flag == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// What an entry's body does: nothing if it is a lone `ret;`, spins if it is a loop, as far as it needs `local` memory. Returns whether it is one of these.
bool compile_body(const std::vector<std::string> &words, size_t &i, KernelInfo &kernel) {
  if (words[i++] != "{") return false;
  kernel.run = do_nothing;
  for (; i + 3 < words.size() && words[i] != "}"; i++) {
    if (words[i] == "bra") kernel.run = spin;
    const std::string &word = words[i];
    const size_t bytes = word.rfind("local[", 0) == 0 ? static_cast<size_t>(atol(word.c_str() + 6)) : 0;
    if (bytes > 0) kernel.attributes.local_bytes = static_cast<unsigned>(bytes);
  }
  return words[i - 1] == ";" && words[i - 2] == "ret" && (kernel.run == spin || words[i - 3] == "{");
}

// The simulated compiler: entries with scalar parameters that return at once, or spin.
CUresult compile_ptx(Image &image) {
  std::vector<std::string> words = ptx_words(image.bytes);
  // Enough to be noticed, and the more the more there is to compile; real kernels take a good while longer.
  const long entries = std::count(words.begin(), words.end(), ".entry");
  compute_for(static_cast<unsigned>(20 + entries));
  words.resize(words.size() + 3);
  for (size_t i = 0; i + 3 < words.size(); i++) {
    if (words[i] != ".entry") continue;
    KernelInfo kernel;
    kernel.name = words[++i];
    i++;
    if (words[i] == "(") {
      for (; i + 3 < words.size() && words[i] != ")"; i++) {
        if (words[i].size() < 3 || words[i][0] != '.' || !strchr("busf", words[i][1])) continue;
        int bits = atoi(words[i].c_str() + 2);
        if (bits < 8) continue;
        size_t bytes = static_cast<size_t>(bits) / 8;
        size_t offset = (kernel.parameter_bytes + bytes - 1) / bytes * bytes;
        kernel.sizes.push_back(bytes);
        kernel.offsets.push_back(offset);
        kernel.parameter_bytes = offset + bytes;
      }
      i++;
    }
    if (!compile_body(words, i, kernel)) return CUDA_ERROR_INVALID_PTX;
    image.kernels.push_back(std::move(kernel));
  }
  return image.kernels.empty() ? CUDA_ERROR_INVALID_PTX : CUDA_SUCCESS;
}

bool looks_like_ptx(const char *data) {
  const char *at = data;
  for (;;) {
    while (*at && isspace(static_cast<unsigned char>(*at))) at++;
    if (strncmp(at, "//", 2)) break;
    while (*at && *at != '\n') at++;
  }
  return !strncmp(at, ".version", 8);
}

// The first machine code of a fat binary, or of the one that a wrapper refers to, that is for this driver; null where there is none. What a
// compiler for real devices has made is compressed, or for another machine.
const char *machine_code(const char *data) {
  uint32_t magic;
  memcpy(&magic, data, sizeof magic);
  if (magic == kFatbinWrapperMagic) memcpy(&data, data + 8, sizeof data);
  struct {
    uint32_t magic;
    uint16_t version, head_bytes;
    uint64_t bytes;
  } fatbin;
  struct {
    uint16_t kind, version;
    uint32_t head_bytes;
    uint64_t bytes;
  } code;
  memcpy(&fatbin, data, sizeof fatbin);
  if (fatbin.magic != kFatbinMagic) return nullptr;
  const char *at = data + fatbin.head_bytes;
  for (const char *end = at + fatbin.bytes; at + sizeof code <= end; at += code.head_bytes + code.bytes) {
    memcpy(&code, at, sizeof code);
    if (code.head_bytes == 0) break;
    if (code.kind == kMachineCode && code.bytes > sizeof(Elf64_Ehdr) && !memcmp(at + code.head_bytes, ELFMAG, SELFMAG)) return at + code.head_bytes;
  }
  return nullptr;
}

}  // namespace

// Read when the driver is loaded: later another thread may be changing the environment.
static const std::string folder = [] {
  const char *set = getenv("TMPDIR");
  return set ? set : "/tmp";
}();

// An instance of its own of a shared object held in memory; null when the loader refuses it. A kernel without memfd_create, or without
// /proc, has it in a file that is gone again once it is open.
void *open_object(const std::string &bytes) {
  std::string path = folder + "/lgsim-image-XXXXXX";
  int fd = access("/proc/self/fd", X_OK) == 0 ? memfd_create("lgsim-image", MFD_CLOEXEC) : -1;
  const bool in_file = fd < 0;
  if (in_file) fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return nullptr;
  size_t written = 0;
  while (written < bytes.size()) {
    ssize_t n = write(fd, bytes.data() + written, bytes.size() - written);
    if (n <= 0) break;
    written += static_cast<size_t>(n);
  }
  if (!in_file) path = unique_path(fd);
  void *object = written == bytes.size() ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (in_file) unlink(path.c_str());
  close(fd);
  return object;
}

bool is_reference(const void *data) {
  uint32_t magic;
  memcpy(&magic, data, sizeof magic);
  return magic == kFatbinWrapperMagic;
}

CUresult copy_image(const void *data, ImageRef &image) {
  if (!data) return CUDA_ERROR_INVALID_VALUE;
  auto *bytes = static_cast<const char *>(data);
  image = std::make_shared<Image>();
  if (looks_like_ptx(bytes)) {
    image->is_ptx = true;
    image->bytes = bytes;
    return CUDA_SUCCESS;
  }
  uint32_t magic;
  memcpy(&magic, bytes, sizeof magic);
  if (magic == kFatbinMagic || magic == kFatbinWrapperMagic) {
    bytes = machine_code(bytes);
    if (!bytes) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  if (memcmp(bytes, ELFMAG, SELFMAG)) return CUDA_ERROR_INVALID_IMAGE;
  Elf64_Ehdr header;
  memcpy(&header, bytes, sizeof header);
  if (header.e_machine != kHostMachine || header.e_type != ET_DYN || header.e_ident[EI_CLASS] != ELFCLASS64)
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  image->bytes.assign(bytes, elf_bytes(header, bytes));
  return CUDA_SUCCESS;
}

CUresult copy_image_file(const char *path, ImageRef &image) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return CUDA_ERROR_FILE_NOT_FOUND;
  std::string bytes;
  char buffer[65536];
  ssize_t n;
  while ((n = read(fd, buffer, sizeof buffer)) > 0) bytes.append(buffer, static_cast<size_t>(n));
  close(fd);
  bytes.append(sizeof(Elf64_Ehdr), '\0');  // so that looking at the header of a short file stays inside it
  return copy_image(bytes.data(), image);
}

CUresult open_image(Image &image) { return image.is_ptx ? compile_ptx(image) : list_kernels(image); }

}  // namespace lgsim
