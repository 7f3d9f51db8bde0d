// Writes GPU core dumps: files in the format that NVIDIA's driver writes when it is asked where a device's threads stand.
//
// Self-contained: it knows nothing of the simulated driver's objects. The caller describes devices, images, grids and blocks, and has
// the bytes of a file. What the tables hold is NVIDIA's `cudacoredump.h` (the public description of the format, in the open sources of cuda-gdb);
// how they lie in the file is as in the cores of an H200 by driver 580; what is in an image, and the line table with its extended operation for
// inlined calls, is as `ptxas` of CUDA 13.0 writes it.
//
// Must not: check what it is given. A test may describe what no device can be in, and wants it in the file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lgsim::gpu_core {

struct Three {
  uint32_t x = 0, y = 0, z = 0;
};

// One instruction of SASS, as it lies in memory: 16 bytes on every card since compute capability 7.0.
using Instruction = std::pair<uint64_t, uint64_t>;

// As `ptxas` encodes them; scheduling bits are those of sm_90.
inline constexpr Instruction kNop{0x0000000000007918, 0x000fc00000000000};
inline constexpr Instruction kExit{0x000000000000794d, 0x000fea0003800000};
inline constexpr Instruction kBarrier{0x0000000000007b1d, 0x000fec0000010000};              // BAR.SYNC.DEFER_BLOCKING 0x0
inline constexpr Instruction kBranchToItself{0xfffffffc00fc7947, 0x000fc0000383ffff};       // BRA to its own address
inline constexpr Instruction kReconverge{0x0000000000007941, 0x000fea0003800000};           // BSYNC B0

// A row of the line table: from `offset` bytes into the function on, the code is of this line.
struct Line {
  uint64_t offset = 0;
  std::string file;
  unsigned line = 0;
  std::string inlined;  // the function the line is in, mangled, where it was inlined; else empty
  unsigned from = 0;    // where it was inlined: the row, counted from 1, of the calling line in the same function
};

struct Function {
  std::string name;      // mangled
  uint64_t address = 0;  // on the device
  std::vector<Instruction> code;
  std::vector<Line> lines;  // none: compiled without -lineinfo
};

// A relocated cubin of these functions.
std::string cubin(const std::vector<Function> &functions);

struct Image {
  uint64_t module = 0;  // its handle
  std::string bytes;
};

struct Context {
  uint64_t id = 0;
  uint32_t thread = 0;  // the host's, which owns it
  std::vector<Image> images;
};

struct Grid {
  uint64_t id = 0, context = 0, function = 0, entry = 0, module = 0;
  Three grid{1, 1, 1}, block{1, 1, 1}, cluster{};
  uint32_t status = 2;  // active
  uint32_t thread = 0;  // the host's, which launched it
};

// What the convergence barrier unit says of a lane. `blocked` are those that wait for others of their warp; those at a barrier of their block are
// `ready`, and one or two instructions behind it.
enum class LaneState : uint32_t { exited = 0, ready = 1, yielded = 2, sleeping = 3, blocked = 6 };

struct Frame {
  uint64_t offset = 0;   // of the return address, from the start of the caller
  uint64_t address = 0;  // the return address
};

struct Lane {
  uint32_t lane = 0;
  Three thread;
  uint64_t address = 0;  // of the next instruction
  uint64_t offset = 0;   // the same, from the start of the function
  uint32_t exception = 0;
  LaneState state = LaneState::ready;
  std::vector<Frame> callers;  // innermost first
};

struct Warp {
  uint32_t id = 0, valid = 0, active = 0;
  uint64_t error_address = 0;  // 0: none
  std::vector<Lane> lanes;
};

struct Block {
  uint64_t grid = 0;
  Three index;
  std::vector<Warp> warps;
};

struct Multiprocessor {
  uint32_t id = 0;
  uint32_t exception = 0;
  uint64_t error_address = 0;  // 0: none
  std::vector<Block> blocks;
};

struct Device {
  std::string name = "NVIDIA H100 80GB HBM3", chip = "gh100", target = "sm_90";
  uint32_t id = 0, bus = 0, slot = 0, major = 9, minor = 0, multiprocessors = 132, warps = 64;
  std::vector<Context> contexts;
  std::vector<Grid> grids;
  std::vector<Multiprocessor> busy;
};

// How long a table's entries are. Drivers before r575 write shorter ones; newer drivers append fields.
enum class Entries { r575, r346, longer };

struct Core {
  std::vector<Device> devices;
  uint32_t driver = 580, driver_minor = 159, cuda = 13, cuda_minor = 0, flags = 0, timestamp = 0;
  Entries entries = Entries::r575;
};

// The bytes of the file.
std::string write(const Core &core);

// The blocks of a grid, filled as a device fills them: warp after warp, lane after lane, thread indices from the block's dimensions. Every
// lane of every warp stands at `address`; the caller then moves those that stand elsewhere.
Block filled_block(const Grid &grid, Three index, uint64_t address);

}  // namespace lgsim::gpu_core
