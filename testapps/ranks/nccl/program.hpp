// What the ranks of a job do through NCCL, and the fault of one of them. All ranks make the same program of the same arguments, so that
// none has to be told of it, and a test can ask for it beforehand.
//
// Must not: call NCCL or the CUDA driver.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "nccl.h"

namespace lg {

enum class Call { all_reduce, all_gather, reduce_scatter, broadcast, reduce, ring };

// The communicators of a job. A rank is in one of the halves, and in one of the pairs unless it is the last of an odd number.
enum Where { kWorld, kHalves, kPairs, kWheres };

struct Operation {
  Call call;
  Where where;
  unsigned together;  // so many calls in one group
  size_t count;
  ncclDataType_t type;
  int root;
  bool computes_first;  // a kernel on the compute stream, before
  bool compute_waits;   // what the compute stream has next waits for it
};

// Of one rank, at one operation:
//
//   none         joins
//   late         joins after two seconds
//   skip         sleeps instead
//   loop         computes without end instead
//   exits        ends with status 3 instead
//   crashes      ends by a signal instead
//   stops        is stopped by a signal instead
//   other        calls another collective
//   size         has another count
//   type         has another type
//   root         has another root
//   order        calls the next operation first, which is another communicator's
//   no_receive   sends, and does not receive
//   load         joins, and loads a module before it lets the other ranks join
//   unwritten    waits, with the host, for its stream, which waits for a value that no operation writes
//   behind       joins behind a wait on its stream for a value that no operation writes
//   init         does not come to the initialization of the operation's communicator
//   fills        sleeps instead, and the other ranks submit more behind the operation than a stream's queue takes
//   grid         launches a grid that fills the device, and then joins; the other ranks launch theirs after they have joined. The grids wait for each other
//   grids        joins and then launches such a grid, as all other ranks do
//   one_queue    two ranks send, have a kernel behind that, and receive on another stream and communicator, as each other does. It hangs the job where
//                all streams share one hardware queue
//   apart        each rank sends, and receives behind that, outside of a group
//
// All hang the job but none, late and grids. A random program has none of the last five.
struct Fault {
  std::string kind = "none";
  unsigned rank = 0;
  size_t at = 0;  // the first operation is 0
};

struct Program {
  unsigned ranks = 0;
  std::vector<Operation> operations;
  Fault fault;

  // The ranks of the rank's communicator; none where it has no part in the split.
  std::vector<unsigned> members(Where where, unsigned rank) const;
  bool uses(Where where) const;
  bool has_fault(const char* kind, unsigned rank) const { return fault.kind == kind && fault.rank == rank; }
  // One line of NAME=VALUE for tests: the fault, and the number of its operation among the rank's calls of that communicator (`call`),
  // among its collectives there (`collective`) and among the kernels of NCCL that the rank has launched (`kernel`). The first is 1.
  std::string described() const;
};

bool is_fault(const std::string& kind);
// Five steps of a training.
Program steps(unsigned ranks, const Fault& fault);
// 20 to 60 operations, and a fault of any kind or none.
Program random_program(unsigned ranks, uint64_t seed);

}  // namespace lg
