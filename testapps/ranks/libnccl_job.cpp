// What nccl_job_plugin opens: linked with NCCL, as an extension module of Python is.
#include "nccl/linked.hpp"

extern "C" int nccl_job_main(int count, char** arguments) { return lg::nccl_job(lg::linked_nccl(), count, arguments); }
