// The export tables: tables of undocumented functions that NVIDIA's CUDA runtime asks of the driver, by UUID, when it starts.
//
// They exist for NVIDIA's runtimes only, so that a runtime gets as far as it can: it looks its functions up, asks how code is loaded,
// takes the primary context and reads the device's attributes. Then every runtime from 11.8 to 13.0 has the driver prove, by a
// table of its own and a digest with a key, that NVIDIA made it, and ends where the driver cannot. This driver is not NVIDIA's and does
// not say that it is: the table is absent, and so are those that the runtimes ask for last, so that a program on NVIDIA's runtime ends with
// "invalid argument" from its first call.
//
// Must not: answer that proof; play an entry that no runtime was seen to call before it. Such an entry answers
// CUDA_ERROR_NOT_SUPPORTED, and says so on stderr where LGSIM_CALL_LOG is set.
//
// What an entry means is known from the calls that the runtimes were seen to make of it, and from what the ZLUDA project has published.
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "context.hpp"
#include "entry.hpp"
#include "settings.hpp"
#include "waits.hpp"

namespace lgsim {
namespace {

// The runtime's way to the primary context.
CUresult runtime_primary_context(CUcontext *context, CUdevice device) {
  ENTER();
  return retain_primary(context, device);
}

// Where a profiler says which calls of the runtime it wants to hear of, and of which kinds. There is none: all words are 0.
template <size_t size> CUresult nothing_wanted(void **words, size_t *count) {
  static std::array<uint64_t, size> none;
  *words = none.data();
  *count = none.size();
  return CUDA_SUCCESS;
}
CUresult wanted_calls(void **words, size_t *count) {
  ENTER_BEFORE_INIT();
  return nothing_wanted<1024>(words, count);
}
CUresult wanted_kinds(void **words, size_t *count) {
  ENTER_BEFORE_INIT();
  return nothing_wanted<14>(words, count);
}

template <class F> void *entry(F *function) { return reinterpret_cast<void *>(function); }

// The first word of a table is its size in bytes.
constexpr size_t kMostWords = 13;
struct Table {
  const char *name;
  unsigned char id[16];
  size_t words;
  std::array<void *, kMostWords> word;
};

Table kTables[] = {
    {"of the runtime", {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9}, 13,
     {nullptr, nullptr, entry(runtime_primary_context)}},
    {"of profilers", {0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a, 0x66}, 7,
     {nullptr, nullptr, entry(wanted_calls), nullptr, nullptr, nullptr, entry(wanted_kinds)}},
};

template <size_t table, size_t index> CUresult not_played() {
  if (settings().call_log_fd >= 0)
    std::fprintf(stderr, "simulated driver: entry %zu of the export table %s is not played\n", index, kTables[table].name);
  return CUDA_ERROR_NOT_SUPPORTED;
}

template <size_t table, size_t... index> void complete(std::index_sequence<index...>) {
  auto &word = kTables[table].word;
  ((word[index] = word[index] ? word[index] : entry(not_played<table, index>)), ...);
  word[0] = reinterpret_cast<void *>(kTables[table].words * sizeof(void *));
}

bool complete_all() {
  complete<0>(std::make_index_sequence<kMostWords>());
  complete<1>(std::make_index_sequence<kMostWords>());
  return true;
}

}  // namespace
}  // namespace lgsim

using namespace lgsim;

CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId) {
  ENTER_BEFORE_INIT();
  if (!ppExportTable || !pExportTableId) return CUDA_ERROR_INVALID_VALUE;
  [[maybe_unused]] static const bool completed = complete_all();
  *ppExportTable = nullptr;
  static const WaitsTable waits{sizeof waits, set_thread_tag, look_at_waits};
  if (!std::memcmp(kWaitsTable, pExportTableId->bytes, sizeof kWaitsTable)) *ppExportTable = &waits;
  for (const Table &table : kTables)
    if (!std::memcmp(table.id, pExportTableId->bytes, sizeof table.id)) *ppExportTable = table.word.data();
  return *ppExportTable ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
