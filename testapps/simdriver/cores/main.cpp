// Writes GPU core dumps of devices that were never there, for the tests of the command that reads such files.
//
// Usage: gpu-cores FOLDER
//
//   outer.core          two blocks of 64 threads: in each, one lane loops in an inlined function, its warp's other lanes wait for it, and the
//                       other warp waits at the block's barrier. Entries as a driver of r575 or later writes them
//   outer-older.core    the same by a driver of r346, with its shorter entries and no metadata
//   outer-longer.core   the same by a driver that appends fields to every entry
//   outer-bare.core     the same, compiled without -lineinfo
//   filled.core         eight blocks of a grid fill the device, and two have found no room; a second grid has not begun
//   fault.core          a lane has read a bad address
//   idle.core           no grid
#include <cstdio>
#include <fstream>
#include <string>

#include "../gpu_core.hpp"

namespace {

using namespace lgsim::gpu_core;

constexpr uint64_t kOuter = 0x7f5a10000000, kOther = 0x7f5a10002000;
constexpr uint64_t kSpin = 0x20, kReconvergence = 0x40, kBarrierAt = 0x50, kBehindTheBarrier = 0x60;
constexpr uint32_t kIllegalAddress = 14;
constexpr uint32_t kPending = 1;

Function outer(bool lines) {
  Function function;
  function.name = "_Z5outerPViPi";
  function.address = kOuter;
  function.code = {kNop, kNop, kBranchToItself, kNop, kReconverge, kBarrier, kNop, kExit};
  if (lines)
    function.lines = {{0x00, "/home/user/spin.cu", 12, {}, 0}, {0x10, "/home/user/spin.cu", 13, {}, 0}, {kSpin, "/home/user/spin.cu", 11, "_Z10inner_spinPVi", 2},
                      {kReconvergence, "/home/user/spin.cu", 13, {}, 0}, {kBarrierAt, "/home/user/spin.cu", 14, {}, 0}, {0x60, "/home/user/spin.cu", 15, {}, 0}};
  return function;
}

Function other(const std::string &name, uint64_t address) {
  Function function;
  function.name = name;
  function.address = address;
  function.code = {kNop, kBranchToItself, kExit};
  function.lines = {{0x00, "/home/user/other.cu", 3, {}, 0}, {0x10, "/home/user/other.cu", 4, {}, 0}};
  return function;
}

Device device(std::vector<Function> functions) {
  Device device;
  device.bus = 0x1b;
  device.contexts = {{0x5500, 4711, {{0x9900, cubin(functions)}}}};
  return device;
}

Grid grid(uint64_t id, uint64_t entry, Three blocks, Three threads) {
  Grid grid;
  grid.id = id;
  grid.context = 0x5500;
  grid.function = 0x7700 + id;
  grid.entry = entry;
  grid.module = 0x9900;
  grid.grid = blocks;
  grid.block = threads;
  grid.thread = 4712;
  return grid;
}

void stand(Warp &warp, uint64_t at) {
  for (Lane &lane : warp.lanes) {
    lane.offset = at;
    lane.address = kOuter + at;
  }
}

Core two_blocks(bool lines) {
  Core core;
  core.timestamp = 1795448810;
  core.devices = {device({outer(lines)})};
  Device &card = core.devices[0];
  card.grids = {grid(1, kOuter, {2, 1, 1}, {64, 1, 1})};
  for (uint32_t i = 0; i < 2; i++) {
    Block block = filled_block(card.grids[0], {i, 0, 0}, kOuter);
    stand(block.warps[0], kBehindTheBarrier);
    stand(block.warps[1], kReconvergence);
    block.warps[1].lanes[5].offset = kSpin;
    block.warps[1].lanes[5].address = kOuter + kSpin;
    block.warps[1].active = 1u << 5;
    for (Lane &lane : block.warps[1].lanes)
      if (lane.lane != 5) lane.state = LaneState::blocked;
    card.busy.push_back({i, 0, 0, {block}});
  }
  return core;
}

Core filled() {
  Core core;
  core.devices = {device({other("_Z4fillPVi", kOther), other("_Z4latePVi", kOther + 0x100)})};
  Device &card = core.devices[0];
  card.multiprocessors = 4;
  card.grids = {grid(7, kOther, {10, 1, 1}, {1024, 1, 1}), grid(8, kOther + 0x100, {16, 2, 1}, {256, 1, 1})};
  card.grids[1].status = kPending;
  for (uint32_t i = 0; i < 4; i++) {
    Multiprocessor sm{i, 0, 0, {}};
    for (uint32_t k = 0; k < 2; k++) sm.blocks.push_back(filled_block(card.grids[0], {2 * i + k, 0, 0}, kOther + 0x10));
    card.busy.push_back(sm);
  }
  return core;
}

Core fault() {
  Core core = two_blocks(true);
  Multiprocessor &sm = core.devices[0].busy[1];
  sm.exception = kIllegalAddress;
  sm.error_address = kOuter + kSpin;
  Warp &warp = sm.blocks[0].warps[1];
  warp.error_address = kOuter + kSpin;
  warp.lanes[5].exception = kIllegalAddress;
  return core;
}

Core idle() {
  Core core;
  core.devices = {device({outer(true)})};
  return core;
}

bool keep(const std::string &path, const Core &core) {
  std::ofstream file(path, std::ios::binary);
  file << write(core);
  file.close();
  if (!file) fprintf(stderr, "gpu-cores: %s cannot be written\n", path.c_str());
  return static_cast<bool>(file);
}

}  // namespace

int main(int count, char **arguments) {
  if (count != 2) {
    fprintf(stderr, "usage: gpu-cores FOLDER\n");
    return 2;
  }
  const std::string folder = arguments[1] + std::string("/");
  Core older = two_blocks(true), longer = two_blocks(true);
  older.entries = Entries::r346;
  longer.entries = Entries::longer;
  const bool all = keep(folder + "outer.core", two_blocks(true)) && keep(folder + "outer-older.core", older) && keep(folder + "outer-longer.core", longer) &&
                   keep(folder + "outer-bare.core", two_blocks(false)) && keep(folder + "filled.core", filled()) && keep(folder + "fault.core", fault()) &&
                   keep(folder + "idle.core", idle());
  return all ? 0 : 1;
}
