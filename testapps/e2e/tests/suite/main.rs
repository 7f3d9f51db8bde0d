//! The end-to-end tests: what a user meets, from the outside. Those that lists make are in `tests/programs`.
//!
//! | file | asks |
//! |---|---|
//! | `traps` | the properties behind the interposing traps that no single program shows |
//! | `lists` | nothing that is built is left out, and nothing listed is missing |
//! | `without_cuda` | processes that never touch CUDA do not notice |
//! | `drivers` | older, newer and failing drivers |
//! | `settings` | each setting has its effect |
//! | `recording` | the log and the summary |
//! | `warm_path` | the warm path of a launch: no allocation, no lock, no system call |
//! | `watchdog` | the verdict: when, where and what |
//! | `findings_report` | what a run of several processes is found to have done, in every form |
//! | `on_hang` | what is done about a hang once it has been reported |
//! | `dump` | a report of a live process, on request |
//! | `hazard_files` | hazards in the folder: counted, grouped, from the file and from the recording |
//! | `recorder` | the recording: what it holds of each kind of event, and that nothing in it goes unaccounted |
//! | `doctor` | what the guard will and will not see, said before |
//! | `asked` | what the commands say of a process that is gone, of a folder that is shared, of what does not match |
//! | `stacks` | the stacks of blocked threads: live, and with names from the folder |
//! | `run_passes_on` | `lazyguard run`: exit codes, signals, input and output are the program's |
//! | `run_limits` | the same where descriptors, threads, processes, room for files or `/proc` are missing |
//! | `run_sanitizers` | programs that are built with a sanitizer |
//! | `run_privileges` | processes that have changed their user, or their root |
//! | `run_processes` | how each process of a run ended |
//! | `run_terminal` | the same at a terminal, played by `run_terminal.py` |
//! | `run_ends` | time that is over, hangs, and that nobody gets away |
//! | `run_findings` | what a run is found to have done: exit codes, files by their schemas, suppressions, a baseline, annotations |
//! | `run_folder` | the folder of a run, ranks, a run in a run |
//! | `cold_start` | where the time of a start went, by delays that were put there, and the card's state |
//! | `blocking` | the asynchronous calls that blocked the host, why, and because of which thread |
//! | `foreign_names` | a program whose names try to forge lines |
//! | `left_behind` | private folders that are left behind: how much stays, and `lazyguard clean` |
//! | `crash` | what is left of a process that was cut off |

mod asked;
mod blocking;
mod cold_start;
mod crash;
mod doctor;
mod drivers;
mod dump;
mod findings_report;
mod foreign_names;
mod hazard_files;
mod left_behind;
mod lists;
mod on_hang;
mod recorder;
mod recording;
mod run_ends;
mod run_findings;
mod run_folder;
mod run_limits;
mod run_passes_on;
mod run_privileges;
mod run_processes;
mod run_sanitizers;
mod run_terminal;
mod settings;
mod stacks;
mod traps;
mod warm_path;
mod watchdog;
mod without_cuda;
