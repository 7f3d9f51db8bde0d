//! The end-to-end tests: what a user meets, from the outside.
//!
//! | file | asks |
//! |---|---|
//! | `apps` | every program of `programs.json`: bare, guarded, guarded without preloading |
//! | `hostile` | every run of `hostile/programs.json`: the same with the guard as without |
//! | `traps` | the properties behind the interposing traps that no single program shows |
//! | `lists` | nothing that is built is left out, and nothing listed is missing |
//! | `without_cuda` | processes that never touch CUDA do not notice |
//! | `drivers` | older, newer and failing drivers |
//! | `settings` | each setting has its effect |
//! | `recording` | the log and the account |
//! | `watchdog` | the verdict: when, where and what |

mod apps;
mod drivers;
mod hostile;
mod lists;
mod recording;
mod settings;
mod traps;
mod watchdog;
mod without_cuda;
