//! The end-to-end tests: what a user meets, from the outside. The tests generated from lists are in `tests/programs`.
//!
//! | file | asks |
//! |---|---|
//! | `traps` | the properties behind the interposing traps that no single program shows |
//! | `lists` | the lists name every built program, and every listed program is built |
//! | `without_cuda` | the guard does not affect processes that never touch CUDA |
//! | `drivers` | older, newer and failing drivers |
//! | `runtimes` | CUDA runtimes of several versions, real ones as far as they start here, and played ones |
//! | `settings` | each setting has its effect |
//! | `recording` | the log and the summary |
//! | `warm_path` | the warm path of a launch: no allocation, no lock, no system call |
//! | `watchdog` | the verdict: when, where and what |
//! | `every_call` | each function of the table, blocked for good |
//! | `explore` | the orders of calls that hang a program which passes, and programs that pass in any |
//! | `findings_report` | the findings of a run of several processes, in every form |
//! | `ranks` | jobs of several ranks that hang in a collective: which rank is to blame |
//! | `nccl` | jobs of several ranks that use NCCL: unchanged by the guard, hanging by each fault, and the rank that is named |
//! | `profile` | modules that one run has loaded, and the next has ahead |
//! | `gpu_dump` | where the device's threads stand, and a hang that becomes an error |
//! | `on_hang` | the action after a reported hang |
//! | `late` | why a rank is late: a program for each class of evidence, looked at from outside
//! | `outside` | processes in which no thread is blocked in the driver, and calls that compute there |
//! | `dump` | a report of a live process, on request |
//! | `gpu_core` | core dumps of GPUs: of older and newer drivers, damaged, huge, and in the folder of a process |
//! | `hazard_files` | hazards in the folder: counted, grouped, from the file and from the recording |
//! | `recorder` | the recording: what it holds of each kind of event, and that it accounts for every record |
//! | `doctor` | the prediction of what the guard will and will not see |
//! | `asked` | the commands' answers for a process that is gone, for a shared folder, for arguments that do not match |
//! | `launches` | where a report says that a kernel was launched |
//! | `stacks` | the stacks of blocked threads: live, and with names from the folder |
//! | `run_passes_on` | `lazyguard run`: exit codes, signals, input and output are the program's |
//! | `run_inherits` | `lazyguard run`: descriptors, environment and search path are the program's, and it has them alone |
//! | `run_limits` | `lazyguard run` without descriptors, threads, processes, room for files or `/proc` |
//! | `run_other_loaders` | programs that another loader than glibc's loads, built from `other_loaders.c` |
//! | `run_sanitizers` | programs that are built with a sanitizer |
//! | `run_privileges` | processes that have changed their user, or their root |
//! | `run_processes` | how each process of a run ended |
//! | `run_terminal` | the same at a terminal, played by `run_terminal.py` |
//! | `run_ends` | timeouts and hangs: `lazyguard run` ends every process of the program |
//! | `revoke` | collectives that are ended by `--on-hang revoke`, and jobs that go on |
//! | `retry` | a run that is made again after a hang: attempts, reports, standard input, signals |
//! | `run_findings` | the findings of a run: exit codes, files by their schemas, suppressions, a baseline, annotations |
//! | `run_folder` | the folder of a run, ranks, a run in a run |
//! | `run_unguarded` | programs that use CUDA without the guard, and runs in which nothing is recorded |
//! | `watched` | a run that is watched from outside: health and metrics |
//! | `cold_start` | where the time of a start went, by delays that the tests inject, and the card's state |
//! | `blocking` | the asynchronous calls that blocked the host, the reason, and the thread to blame |
//! | `foreign_names` | a program whose names try to forge lines |
//! | `machines` | old kernels, container engines and small machines: what is refused, and what that costs |
//! | `left_behind` | private folders of ended processes: how many stay, and `lazyguard clean` |
//! | `stalls` | processes that submit no more: stalled with a class, or at rest |
//! | `crash` | what a process that was cut off leaves |

mod asked;
mod attach;
mod blocking;
mod cold_start;
mod crash;
mod defer;
mod doctor;
mod drivers;
mod dump;
mod every_call;
mod explore;
mod findings_report;
mod foreign_names;
mod gpu_core;
mod gpu_dump;
mod hazard_files;
mod late;
mod late_ranks;
mod launches;
mod left_behind;
mod lists;
mod machines;
mod marker;
mod nccl;
mod on_hang;
mod outside;
mod profile;
mod ranks;
mod recorder;
mod recording;
mod retry;
mod revoke;
mod run_ends;
mod run_findings;
mod run_folder;
mod run_inherits;
mod run_limits;
mod run_other_loaders;
mod run_passes_on;
mod run_privileges;
mod run_processes;
mod run_sanitizers;
mod run_terminal;
mod run_unguarded;
mod runtimes;
mod settings;
mod stacks;
mod stalls;
mod traps;
mod warm_path;
mod watchdog;
mod watched;
mod without_cuda;
