// One rank of a job that uses NCCL, linked with it: a training's communicators, streams, events and watchdog, and a fault in one rank.
// What it does, and the faults: nccl/program.hpp. RANK=N WORLD_SIZE=N nccl_job FILE steps FAULT, or FILE random SEED.
#include "nccl/linked.hpp"

int main(int count, char** arguments) { return lg::nccl_job(lg::linked_nccl(), count, arguments); }
