// GPU core dumps that a program asks for: their attributes, the pipe that a byte is written into, and what the dump does to the context.
//
// An exception of the device, where dumps at exceptions are enabled, writes the same file: meanwhile waits end with success, and the error comes
// after that.
//
// Played as measured (ground-truth/gpu-core-dumps.txt): attributes count until there is a context, and the driver dies of one that is set
// before cuInit. The first context makes the pipe. A byte in it ends all work in flight: blocked calls return with "launch failed",
// and so do later ones. The driver writes the file, then removes the pipe. LGSIM_LOSE_DUMP_REQUESTS plays one that reads the byte only.
#pragma once

#include <cuda.h>

namespace lgsim {

// cuInit reads the variables, which no later call overrides.
void read_coredump_variables();
// A context was made.
void a_context_is_there();
// A kernel has raised an exception, on the thread that runs it.
void raise_exception(CUresult error);

}  // namespace lgsim
