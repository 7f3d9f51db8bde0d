// A function of the driver, past any library that is preloaded: by the driver's own table of symbols, which nobody interposes.
//
// So one process can make launches with and without what is measured, in turn. Two processes of one mode differ by tens of nanoseconds, by where
// their memory lies and which of a card's queues they get; two halves of one process do not.
#pragma once
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

#include "check.hpp"

namespace bench {

namespace direct_detail {

struct Wanted {
  const char *object, *symbol;
  uintptr_t found = 0;
};

// Of the symbols' hash table of GNU's form: how many symbols there are.
inline uint32_t count_of(const uint32_t* hash) {
  const uint32_t buckets = hash[0], first = hash[1], bloom = hash[2];
  const uint32_t* bucket = hash + 4 + bloom * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* chain = bucket + buckets;
  uint32_t last = 0;
  for (uint32_t n = 0; n < buckets; ++n) last = bucket[n] > last ? bucket[n] : last;
  if (last < first) return first;
  // The last symbol of a bucket has the lowest bit.
  while ((chain[last - first] & 1) == 0) ++last;
  return last + 1;
}

// glibc has made the addresses in an object's dynamic section absolute.
inline int look(dl_phdr_info* info, size_t, void* data) {
  auto* wanted = static_cast<Wanted*>(data);
  const char* name = std::strrchr(info->dlpi_name, '/');
  if (std::strcmp(name != nullptr ? name + 1 : info->dlpi_name, wanted->object) != 0) return 0;
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  uint32_t count = 0;
  for (int n = 0; n < info->dlpi_phnum; ++n) {
    if (info->dlpi_phdr[n].p_type != PT_DYNAMIC) continue;
    for (auto* entry = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[n].p_vaddr); entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
      if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
      if (entry->d_tag == DT_GNU_HASH) count = count_of(reinterpret_cast<const uint32_t*>(entry->d_un.d_ptr));
    }
  }
  EXPECT(symbols != nullptr && names != nullptr);
  for (uint32_t n = 0; n < count; ++n) {
    if (symbols[n].st_shndx != SHN_UNDEF && std::strcmp(names + symbols[n].st_name, wanted->symbol) == 0) wanted->found = info->dlpi_addr + symbols[n].st_value;
  }
  return 1;
}

}  // namespace direct_detail

// The driver's function of this name, as another one of the same type.
template <class Function>
Function* directly(const char* symbol, Function*) {
  direct_detail::Wanted wanted{"libcuda.so.1", symbol};
  dl_iterate_phdr(direct_detail::look, &wanted);
  EXPECT(wanted.found != 0);
  return reinterpret_cast<Function*>(wanted.found);
}

}  // namespace bench
