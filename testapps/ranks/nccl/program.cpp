#include "program.hpp"

#include <algorithm>
#include <array>

namespace lg {
namespace {

constexpr std::array kFaults = {"none", "late",  "skip", "loop", "exits", "crashes", "stops",  "other", "size",
                                "type", "root",  "order", "no_receive", "load", "unwritten", "behind", "init"};
constexpr std::array kFurtherFaults = {"fills", "grid", "grids", "one_queue", "apart"};

// The generator of Steele, Lea and Flood (SplitMix64): the same numbers with every library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  size_t below(size_t end) {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (z ^ z >> 31) % end;
  }

 private:
  uint64_t state_;
};

// One that the rank shares with another.
bool is_shared(const Program& program, Where where, unsigned rank) { return program.members(where, rank).size() > 1; }

// Makes the operation one at which the fault hangs the job.
void plant(Program& program, const Fault& fault) {
  program.fault = fault;
  const std::string& kind = fault.kind;
  Operation& operation = program.operations[fault.at];
  if (!is_shared(program, operation.where, fault.rank)) operation.where = kWorld;
  const bool is_ring = operation.call == Call::ring;
  if (kind == "no_receive" || kind == "apart") operation.call = Call::ring;
  else if (kind == "root") operation.call = Call::broadcast;
  else if (is_ring && (kind == "other" || kind == "size" || kind == "type" || kind == "order" || kind == "load")) operation.call = Call::all_reduce;
  if (operation.call == Call::ring) operation.together = 1;
  if (kind != "order") return;
  // Each rank of both communicators waits in one of them for the fault's rank, which waits for it in the other.
  Operation& next = program.operations[fault.at + 1];
  if (next.call == Call::ring) next.call = Call::all_gather;
  operation.where = kWorld;
  if (next.where == kWorld || !is_shared(program, next.where, fault.rank)) next.where = is_shared(program, kPairs, fault.rank) ? kPairs : kHalves;
  operation.compute_waits = next.compute_waits = true;
}

const char* name(Call call) {
  switch (call) {
    case Call::all_reduce: return "AllReduce";
    case Call::all_gather: return "AllGather";
    case Call::reduce_scatter: return "ReduceScatter";
    case Call::broadcast: return "Broadcast";
    case Call::reduce: return "Reduce";
    case Call::ring: return "Send";
  }
  return "";
}

const char* name(Where where) { return where == kWorld ? "world" : where == kHalves ? "halves" : "pairs"; }

const char* name(ncclDataType_t type) {
  constexpr std::array kNames = {"int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return kNames[type];
}

}  // namespace

bool is_fault(const std::string& kind) {
  return std::find(kFaults.begin(), kFaults.end(), kind) != kFaults.end() ||
         std::find(kFurtherFaults.begin(), kFurtherFaults.end(), kind) != kFurtherFaults.end();
}

std::vector<unsigned> Program::members(Where where, unsigned rank) const {
  unsigned begin = 0, end = ranks;
  if (where == kHalves) (rank < ranks / 2 ? end : begin) = ranks / 2;
  if (where == kPairs) {
    begin = rank / 2 * 2;
    end = begin + 2;
    if (end > ranks) return {};
  }
  std::vector<unsigned> found;
  for (unsigned member = begin; member < end; ++member) found.push_back(member);
  return found;
}

bool Program::uses(Where where) const {
  return where == kWorld || (where == kPairs && fault.kind == "one_queue") || std::any_of(operations.begin(), operations.end(), [&](const Operation& one) { return one.where == where; });
}

std::string Program::described() const {
  if (fault.kind == "none") return "fault=none";
  const Operation& at = operations[fault.at];
  unsigned calls[kWheres] = {}, collectives[kWheres] = {}, kernels = 0;
  for (size_t i = 0; i < fault.at; ++i) {
    const Operation& one = operations[i];
    const size_t members_of_it = members(one.where, fault.rank).size();
    if (members_of_it == 0 || (members_of_it == 1 && one.call == Call::ring)) continue;
    calls[one.where] += one.call == Call::ring ? 2 : one.together;
    collectives[one.where] += one.call == Call::ring ? 0 : one.together;
    kernels += members_of_it > 1 ? 1 : 0;
  }
  std::string joined;
  for (unsigned member : members(at.where, fault.rank)) joined += (joined.empty() ? "" : ",") + std::to_string(member);
  std::string line = "fault=" + fault.kind + " rank=" + std::to_string(fault.rank) + " communicator=" + name(at.where) + " members=" + joined;
  if (fault.kind == "init") return line;
  line += " call=" + std::to_string(calls[at.where] + 1);
  if (at.call != Call::ring) line += " collective=" + std::to_string(collectives[at.where] + 1);
  line += " kernel=" + std::to_string(kernels + 1) + " function=" + name(at.call) + " count=" + std::to_string(at.count) + " type=" + name(at.type);
  if (fault.kind != "order") return line;
  const Operation& first = operations[fault.at + 1];
  return line + " before_it=" + name(first.where) + " before_it_call=" + std::to_string(calls[first.where] + 1) + " before_it_function=" + name(first.call);
}

Program steps(unsigned ranks, const Fault& fault) {
  Program program{ranks, {}, {}};
  const int second = ranks > 1 ? 1 : 0;
  for (unsigned step = 0; step < 5; ++step) {
    program.operations.push_back({Call::all_reduce, kWorld, 1, 65536, ncclFloat32, 0, true, false});
    program.operations.push_back({Call::all_gather, kHalves, 1, 4096, ncclBfloat16, 0, true, false});
    program.operations.push_back({Call::reduce_scatter, kHalves, 1, 4096, ncclFloat32, 0, false, true});
    program.operations.push_back({Call::all_reduce, kWorld, 3, 1024, ncclFloat32, 0, true, true});
    program.operations.push_back({Call::ring, kWorld, 1, 512, ncclFloat32, 0, true, true});
    program.operations.push_back({Call::broadcast, kWorld, 1, 256, ncclInt64, second, false, false});
  }
  program.operations.push_back({Call::all_reduce, kWorld, 1, 1, ncclInt32, 0, false, true});
  if (fault.kind != "none") plant(program, fault);
  return program;
}

Program random_program(unsigned ranks, uint64_t seed) {
  Random random(seed);
  Program program{ranks, {}, {}};
  std::vector<Where> wheres = {kWorld};
  for (Where where : {kHalves, kPairs}) {
    if (random.below(3) != 0) wheres.push_back(where);
  }
  constexpr std::array kTypes = {ncclInt8, ncclInt32, ncclInt64, ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16};
  const size_t count = 19 + random.below(41);
  for (size_t i = 0; i < count; ++i) {
    Operation one{};
    one.call = static_cast<Call>(random.below(6));
    one.where = wheres[random.below(wheres.size())];
    one.together = one.call != Call::ring && random.below(4) == 0 ? 2 + static_cast<unsigned>(random.below(3)) : 1;
    one.count = size_t{1} << random.below(13);
    one.type = kTypes[random.below(kTypes.size())];
    // A rank of every communicator, as the ranks of a half number.
    one.root = 0;
    one.computes_first = random.below(2) == 0;
    one.compute_waits = random.below(3) != 0;
    program.operations.push_back(one);
  }
  // All ranks come together at the end, so that none ends while another one hangs.
  program.operations.push_back({Call::all_reduce, kWorld, 1, 1, ncclInt32, 0, false, true});
  const Fault fault{kFaults[random.below(kFaults.size())], static_cast<unsigned>(random.below(ranks)), random.below(count - 1)};
  if (ranks > 1 && fault.kind != "none") plant(program, fault);
  return program;
}

}  // namespace lg
