#include "gpu_core.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace lgsim::gpu_core {
namespace {

constexpr uint16_t kMachine = 0xbe;
constexpr unsigned char kCoreAbi = 0x33;   // ELFOSABI_CUDA, of cores
constexpr unsigned char kCubinAbi = 0x41;  // of the cubins of CUDA 13
constexpr size_t kInstructionBytes = 16;

// The types of sections, counted from SHT_LOUSER.
enum SectionType : uint32_t {
  kRelocatedImage = SHT_LOUSER + 7,
  kCallers = SHT_LOUSER + 8,
  kDevices = SHT_LOUSER + 9,
  kContexts = SHT_LOUSER + 10,
  kMultiprocessors = SHT_LOUSER + 11,
  kGrids = SHT_LOUSER + 12,
  kBlocks = SHT_LOUSER + 13,
  kWarps = SHT_LOUSER + 14,
  kLanes = SHT_LOUSER + 15,
  kModules = SHT_LOUSER + 16,
  kMetadata = SHT_LOUSER + 22,
};

class Bytes {
 public:
  Bytes &u8(uint8_t value) { return raw(&value, 1); }
  Bytes &u16(uint16_t value) { return raw(&value, 2); }
  Bytes &u32(uint32_t value) { return raw(&value, 4); }
  Bytes &u64(uint64_t value) { return raw(&value, 8); }
  Bytes &three(const Three &value) { return u32(value.x).u32(value.y).u32(value.z); }
  Bytes &zeros(size_t count) {
    bytes.append(count, '\0');
    return *this;
  }
  Bytes &text(const std::string &text) {
    bytes.append(text.c_str(), text.size() + 1);
    return *this;
  }
  Bytes &unsigned_leb(uint64_t value) {
    do {
      uint8_t byte = value & 0x7f;
      value >>= 7;
      u8(byte | (value ? 0x80 : 0));
    } while (value);
    return *this;
  }
  Bytes &signed_leb(int64_t value) {
    for (;;) {
      uint8_t byte = value & 0x7f;
      value >>= 7;
      bool last = (value == 0 && !(byte & 0x40)) || (value == -1 && (byte & 0x40));
      u8(byte | (last ? 0 : 0x80));
      if (last) return *this;
    }
  }
  std::string bytes;

 private:
  Bytes &raw(const void *data, size_t count) {
    bytes.append(static_cast<const char *>(data), count);
    return *this;
  }
};

// Texts, one after the other, each ended by a zero; the first is empty.
class Strings {
 public:
  uint64_t add(const std::string &text) {
    if (text.empty()) return 0;
    auto [place, fresh] = known_.try_emplace(text, bytes.size());
    if (fresh) bytes.append(text.c_str(), text.size() + 1);
    return place->second;
  }
  std::string bytes = std::string(1, '\0');

 private:
  std::map<std::string, uint64_t> known_;
};

// An ELF file with sections and no segments. The table of sections is last.
class Elf {
 public:
  Elf(unsigned char abi, unsigned char abi_version, uint16_t type) : abi_(abi), abi_version_(abi_version), type_(type) {
    sections_.emplace_back();
  }

  // Answers the section's index.
  uint32_t add(const std::string &name, uint32_t type, std::string bytes, uint64_t entry = 0, uint32_t link = 0, uint32_t info = 0, uint64_t address = 0,
               uint64_t flags = 0) {
    Section section;
    section.header.sh_name = static_cast<uint32_t>(names_.add(name));
    section.header.sh_type = type;
    section.header.sh_flags = flags;
    section.header.sh_addr = address;
    section.header.sh_size = bytes.size();
    section.header.sh_link = link;
    section.header.sh_info = info;
    section.header.sh_addralign = 1;
    section.header.sh_entsize = entry;
    section.bytes = std::move(bytes);
    sections_.push_back(std::move(section));
    return static_cast<uint32_t>(sections_.size() - 1);
  }

  // The table of the sections' names is added here; nothing may be added afterwards.
  std::string finish() {
    names_.add(".shstrtab");
    uint32_t names = add(".shstrtab", SHT_STRTAB, names_.bytes);
    std::string file(sizeof(Elf64_Ehdr), '\0');
    for (Section &section : sections_) {
      file.resize((file.size() + 15) / 16 * 16);
      section.header.sh_offset = section.header.sh_type == SHT_NULL ? 0 : file.size();
      file += section.bytes;
    }
    file.resize((file.size() + 15) / 16 * 16);

    Elf64_Ehdr header{};
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_ident[EI_OSABI] = abi_;
    header.e_ident[EI_ABIVERSION] = abi_version_;
    header.e_type = type_;
    header.e_machine = kMachine;
    header.e_version = EV_CURRENT;
    header.e_ehsize = sizeof(Elf64_Ehdr);
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shoff = file.size();
    // A core of a filled device has more sections than the header can count.
    if (sections_.size() < SHN_LORESERVE) {
      header.e_shnum = static_cast<uint16_t>(sections_.size());
      header.e_shstrndx = static_cast<uint16_t>(names);
    } else {
      sections_[0].header.sh_size = sections_.size();
      sections_[0].header.sh_link = names;
      header.e_shstrndx = SHN_XINDEX;
    }
    memcpy(file.data(), &header, sizeof header);
    for (const Section &section : sections_) file.append(reinterpret_cast<const char *>(&section.header), sizeof section.header);
    return file;
  }

 private:
  struct Section {
    Elf64_Shdr header{};
    std::string bytes;
  };
  unsigned char abi_, abi_version_;
  uint16_t type_;
  Strings names_;
  std::vector<Section> sections_;
};

// The line table of all functions, of version 2 as ptxas writes it: one sequence a function. Names of inlined functions go to `names`.
std::string line_table(const std::vector<Function> &functions, Bytes &names) {
  constexpr uint8_t kCopy = 1, kAdvanceAddress = 2, kAdvanceLine = 3, kSetFile = 4;
  constexpr uint8_t kEndSequence = 1, kSetAddress = 2, kInlinedCall = 0x90;
  constexpr uint8_t kOperands[] = {0, 1, 1, 1, 1, 0, 0, 0, 1};
  constexpr uint8_t kLineRange = 14, kLineBase = 0xfb, kOpcodeBase = 10;

  std::vector<std::string> folders, files;
  auto index_of = [](std::vector<std::string> &list, const std::string &text) {
    auto place = std::find(list.begin(), list.end(), text);
    if (place == list.end()) place = list.insert(list.end(), text);
    return static_cast<size_t>(place - list.begin()) + 1;
  };
  std::map<std::string, size_t> name_places;

  Bytes program;
  for (const Function &function : functions) {
    if (function.lines.empty()) continue;
    program.u8(0).unsigned_leb(9).u8(kSetAddress).u64(function.address);
    uint64_t offset = 0;
    size_t file = 1;
    unsigned line = 1, from = 0;
    for (const Line &row : function.lines) {
      if (size_t wanted = index_of(files, row.file); wanted != file) program.u8(kSetFile).unsigned_leb(file = wanted);
      if (row.from || from) {
        size_t name = 0;
        if (row.from) {
          auto [place, fresh] = name_places.try_emplace(row.inlined, names.bytes.size());
          if (fresh) names.text(row.inlined);
          name = place->second;
        }
        Bytes operands;
        operands.u8(kInlinedCall).unsigned_leb(row.from).unsigned_leb(name);
        program.u8(0).unsigned_leb(operands.bytes.size());
        program.bytes += operands.bytes;
        from = row.from;
      }
      if (row.line != line) program.u8(kAdvanceLine).signed_leb(static_cast<int64_t>(row.line) - line);
      if (row.offset != offset) program.u8(kAdvanceAddress).unsigned_leb(row.offset - offset);
      program.u8(kCopy);
      line = row.line;
      offset = row.offset;
    }
    program.u8(kAdvanceAddress).unsigned_leb(function.code.size() * kInstructionBytes - offset);
    program.u8(0).unsigned_leb(1).u8(kEndSequence);
  }
  if (program.bytes.empty()) return {};

  Bytes lists;
  std::vector<std::pair<std::string, size_t>> entries;
  for (const std::string &path : files) {
    size_t slash = path.rfind('/');
    size_t folder = slash == std::string::npos ? 0 : index_of(folders, path.substr(0, slash));
    entries.emplace_back(slash == std::string::npos ? path : path.substr(slash + 1), folder);
  }
  for (const std::string &folder : folders) lists.text(folder);
  lists.u8(0);
  for (const auto &[name, folder] : entries) lists.text(name).unsigned_leb(folder).unsigned_leb(0).unsigned_leb(0);
  lists.u8(0);

  Bytes header;
  header.u8(1).u8(1).u8(kLineBase).u8(kLineRange).u8(kOpcodeBase);
  for (uint8_t count : kOperands) header.u8(count);
  header.bytes += lists.bytes;

  Bytes table;
  table.u32(static_cast<uint32_t>(2 + 4 + header.bytes.size() + program.bytes.size()));
  table.u16(2).u32(static_cast<uint32_t>(header.bytes.size()));
  return table.bytes + header.bytes + program.bytes;
}

class Writer {
 public:
  explicit Writer(const Core &core) : core_(core), elf_(kCoreAbi, 7, ET_CORE) {}

  std::string write() {
    Bytes rows;
    for (const Device &device : core_.devices) rows.bytes += sized(row(device), 72, 88);
    uint32_t devices = table(".cudbg.devtbl", kDevices, rows, 72, 88);
    for (size_t i = 0; i < core_.devices.size(); i++) device_tables(core_.devices[i], "dev" + std::to_string(i), devices, static_cast<uint32_t>(i));
    if (core_.entries != Entries::r346) {
      Bytes meta;
      meta.u64(strings_.add("simulated driver")).u32(core_.driver).u32(core_.driver_minor).u32(core_.cuda).u32(core_.cuda_minor);
      meta.u32(core_.flags).u32(core_.timestamp);
      elf_.add(".cudbg.meta", kMetadata, meta.bytes);
    }
    elf_.add(".strtab", SHT_STRTAB, strings_.bytes);
    return elf_.finish();
  }

 private:
  // How long entries are, which had one length in the first version and have another one today.
  size_t length(size_t first, size_t today) const {
    return core_.entries == Entries::r346 ? first : core_.entries == Entries::longer ? today + 40 : today;
  }
  // An entry of today, cut or lengthened. What comes after the known fields is no zeros, so that a reader that takes it for something is found.
  std::string sized(Bytes row, size_t first, size_t today) const {
    row.bytes.resize(today);
    row.bytes.resize(length(first, today), '\xa5');
    return row.bytes;
  }
  uint32_t table(const std::string &name, uint32_t type, const Bytes &rows, size_t first, size_t today, uint32_t link = 0, uint32_t info = 0) {
    return elf_.add(name, type, rows.bytes, length(first, today), link, info);
  }

  Bytes row(const Device &device) {
    Bytes row;
    row.u64(strings_.add(device.name)).u64(strings_.add(device.chip)).u64(strings_.add(device.target));
    row.u32(device.id).u32(device.bus).u32(device.slot).u32(device.multiprocessors).u32(device.warps);
    return row.u32(32).u32(255).u32(7).u32(device.major).u32(device.minor).u32(kInstructionBytes).u32(0).u32(63).u32(7).u32(16).u32(0);
  }

  void device_tables(const Device &device, const std::string &tag, uint32_t devices, uint32_t index) {
    Bytes contexts;
    for (const Context &context : device.contexts) contexts.u64(context.id).u64(0).u64(0).u64(0).u32(index).u32(context.thread);
    uint32_t context_table = elf_.add(".cudbg.ctxtbl." + tag, kContexts, contexts.bytes, 40, devices, index);
    for (size_t i = 0; i < device.contexts.size(); i++) {
      const std::string name = tag + ".ctx" + std::to_string(i);
      Bytes modules;
      for (const Image &image : device.contexts[i].images) modules.u64(image.module);
      uint32_t module_table = elf_.add(".cudbg.modtbl." + name, kModules, modules.bytes, 8, context_table, static_cast<uint32_t>(i));
      uint32_t module = 0;
      for (const Image &image : device.contexts[i].images) elf_.add(".cudbg.relfimg." + name, kRelocatedImage, image.bytes, 0, module_table, module++);
    }

    Bytes grids;
    for (const Grid &grid : device.grids) {
      Bytes row;
      row.u64(grid.id).u64(grid.context).u64(grid.function).u64(grid.entry).u64(grid.module).u64(0).u64(0);
      row.u32(2).u32(1).u32(grid.status).u32(32).three(grid.grid).three(grid.block).u32(0).u32(grid.thread);
      grids.bytes += sized(row.three(grid.cluster), 104, 136);
    }
    table(".cudbg.gridtbl." + tag, kGrids, grids, 104, 136, devices, index);

    Bytes multiprocessors;
    for (const Multiprocessor &sm : device.busy) {
      Bytes row;
      row.u32(sm.id).u32(0).u32(sm.exception).u32(sm.error_address != 0).u64(sm.error_address);
      multiprocessors.bytes += sized(row, 8, 48);
    }
    uint32_t sm_table = table(".cudbg.smtbl." + tag, kMultiprocessors, multiprocessors, 8, 48, devices, index);
    for (size_t i = 0; i < device.busy.size(); i++) block_tables(device.busy[i], tag + ".sm" + std::to_string(i), sm_table, static_cast<uint32_t>(i));
  }

  void block_tables(const Multiprocessor &sm, const std::string &tag, uint32_t sm_table, uint32_t index) {
    if (sm.blocks.empty()) return;
    Bytes blocks;
    for (const Block &block : sm.blocks) {
      Bytes row;
      blocks.bytes += sized(row.u64(block.grid).three(block.index).u32(0), 24, 56);
    }
    uint32_t block_table = table(".cudbg.ctatbl." + tag, kBlocks, blocks, 24, 56, sm_table, index);
    for (size_t i = 0; i < sm.blocks.size(); i++) warp_tables(sm.blocks[i], tag + ".cta" + std::to_string(i), block_table, static_cast<uint32_t>(i));
  }

  void warp_tables(const Block &block, const std::string &tag, uint32_t block_table, uint32_t index) {
    Bytes warps;
    for (const Warp &warp : block.warps) {
      Bytes row;
      row.u64(warp.error_address).u32(warp.id).u32(warp.valid).u32(warp.active).u32(0).u32(warp.error_address != 0).u32(0);
      row.u32(32).u32(0).u32(0).u32(0).u32(0).u32(warp.active).u32(0).u32(0);
      warps.bytes += sized(row, 32, 64);
    }
    uint32_t warp_table = table(".cudbg.wptbl." + tag, kWarps, warps, 32, 64, block_table, index);
    for (size_t i = 0; i < block.warps.size(); i++) lane_tables(block.warps[i], tag + ".wp" + std::to_string(i), warp_table, static_cast<uint32_t>(i));
  }

  void lane_tables(const Warp &warp, const std::string &tag, uint32_t warp_table, uint32_t index) {
    Bytes lanes;
    for (const Lane &lane : warp.lanes) {
      Bytes row;
      row.u64(lane.address).u64(lane.offset).u32(lane.lane).three(lane.thread).u32(lane.exception);
      row.u32(static_cast<uint32_t>(lane.callers.size())).u32(0).u32(0).u32(static_cast<uint32_t>(lane.state)).u32(0);
      lanes.bytes += sized(row, 48, 56);
    }
    uint32_t lane_table = table(".cudbg.lntbl." + tag, kLanes, lanes, 48, 56, warp_table, index);
    for (size_t i = 0; i < warp.lanes.size(); i++) {
      const std::vector<Frame> &callers = warp.lanes[i].callers;
      if (callers.empty()) continue;
      Bytes rows;
      uint32_t level = 0;
      for (const Frame &frame : callers) rows.u64(frame.offset).u64(frame.address).u32(level++).u32(0);
      elf_.add(".cudbg.bt." + tag + ".ln" + std::to_string(i), kCallers, rows.bytes, 24, lane_table, static_cast<uint32_t>(i));
    }
  }

  const Core &core_;
  Elf elf_;
  Strings strings_;  // those that entries name
};

}  // namespace

std::string cubin(const std::vector<Function> &functions) {
  Elf elf(kCubinAbi, 8, ET_EXEC);
  Strings names;
  Bytes symbols, inlined_names;
  symbols.zeros(sizeof(Elf64_Sym));
  for (const Function &function : functions) {
    Bytes code;
    for (const Instruction &instruction : function.code) code.u64(instruction.first).u64(instruction.second);
    uint64_t bytes = code.bytes.size();
    uint32_t section = elf.add(".text." + function.name, SHT_PROGBITS, code.bytes, 0, 0, 0, function.address, SHF_ALLOC | SHF_EXECINSTR);
    symbols.u32(static_cast<uint32_t>(names.add(function.name))).u8(ELF64_ST_INFO(STB_GLOBAL, STT_FUNC)).u8(0x10);
    symbols.u16(static_cast<uint16_t>(section)).u64(function.address).u64(bytes);
  }
  std::string lines = line_table(functions, inlined_names);
  uint32_t name_table = elf.add(".symbol_names", SHT_STRTAB, names.bytes);
  elf.add(".symtab", SHT_SYMTAB, symbols.bytes, sizeof(Elf64_Sym), name_table, 1);
  if (!lines.empty()) elf.add(".debug_line", SHT_PROGBITS, std::move(lines));
  if (!inlined_names.bytes.empty()) elf.add(".debug_str", SHT_PROGBITS, inlined_names.bytes);
  return elf.finish();
}

std::string write(const Core &core) { return Writer(core).write(); }

Block filled_block(const Grid &grid, Three index, uint64_t address) {
  Block block;
  block.grid = grid.id;
  block.index = index;
  const uint32_t threads = grid.block.x * grid.block.y * grid.block.z;
  for (uint32_t thread = 0; thread < threads; thread++) {
    if (thread % 32 == 0) {
      block.warps.emplace_back();
      block.warps.back().id = thread / 32;
    }
    Warp &warp = block.warps.back();
    Lane lane;
    lane.lane = thread % 32;
    lane.thread = {thread % grid.block.x, thread / grid.block.x % grid.block.y, thread / grid.block.x / grid.block.y};
    lane.address = address;
    lane.offset = address - grid.entry;
    warp.valid |= 1u << lane.lane;
    warp.active |= 1u << lane.lane;
    warp.lanes.push_back(std::move(lane));
  }
  return block;
}

}  // namespace lgsim::gpu_core
