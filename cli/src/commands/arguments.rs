//! The commands and their arguments.

use crate::commands::version;
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Keeps CUDA programs from deadlocking on lazy loading, and reports why they hang.
#[derive(Parser)]
#[command(name = "lazyguard", version = version::COMMAND.as_str(), propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a program under the guard, end it when it hangs or takes too long, and report the findings.
    ///
    /// The program's output, input, terminal and exit code are its own. Settings that no option names are those of the
    /// environment.
    Run(Box<crate::run::Options>),
    /// Run a program again and again with other orders of its calls, until one hangs.
    ///
    /// Threads are held before loads, releases, stream operations, events, host functions, synchronizations and collectives, for no
    /// longer in all than the program takes. A schedule that hangs is made small: the report says which call has to come late.
    Explore(Box<crate::explore::Arguments>),
    /// Report a run: its hang, the end of its processes, its hazards and its summary.
    ///
    /// A running process without a recording file is asked for a report. One without the guard is examined from
    /// outside: its threads in the CUDA driver, their functions and stacks. The process goes on as before.
    #[command(alias = "attach")]
    Report(crate::commands::report::Arguments),
    /// Show what the processes of a run do: launches a second, who waits for what and since when, hazards, hangs.
    ///
    /// Refreshes in a terminal until q; else prints text once, or every --interval. It neither stops nor asks a
    /// process.
    Top(crate::commands::top::Arguments),
    /// Say in one line whether the processes of a run are well, with an exit code for liveness probes.
    Health(crate::commands::health::Arguments),
    /// Print what the processes of a run do, as metrics for Prometheus, or write them to a file.
    Metrics(crate::commands::metrics::Arguments),
    /// Ask a running process what it is doing now, and print its answer. No thread of it is stopped.
    #[command(hide = true)]
    Dump(crate::commands::dump::Arguments),
    /// Tell guarded processes that they are ready: what they load from then on is reported as LG110
    Ready(crate::commands::ready::Arguments),
    /// Print the records of a recording, one a line.
    Log(crate::commands::log::Arguments),
    /// Write a recording as a timeline that a viewer opens, or its hang as a small CUDA program that hangs alike.
    Export(crate::commands::export::Arguments),
    /// Copy the recordings of a run without the names of the user, the machine and the program's own code.
    ///
    /// The copy gives the same verdict and names the same rank, and is small: it can be posted. Names of hosts, programs, threads, files,
    /// communicators and kernels become numbers, the same in all processes of the run; kernels of public libraries keep theirs. Environment,
    /// notes, stacks and all files but the recordings are left out. Times and process ids stay.
    #[command(alias = "anonymize")]
    Anonymise(crate::commands::anonymise::Arguments),
    /// Explain a code, or a word that a report uses: HANG, SLOW, SUSPECTED, likely.
    Explain {
        /// The code or the word, such as LG201 or 201; without one, all of them in a line each.
        code: Option<String>,
    },
    /// Forecast whether the guard sees a program's driver calls on this machine
    Doctor(crate::commands::doctor::Arguments),
    /// Remove the private folders that this user's processes and runs have left behind.
    ///
    /// Folders of living processes, of other users, and of --out or LAZYGUARD_OUT stay.
    Clean(crate::commands::clean::Arguments),
    /// Print, check, merge or prune a profile, from which a program's next run loads its modules ahead.
    Profile(crate::commands::profile::Arguments),
    /// Print the path of the library, as doctor and --version do.
    #[command(hide = true)]
    Path,
    /// Copy this command and its library into a folder, as an init container does for the containers of its pod.
    Install(crate::commands::install::Arguments),
    /// Print the help of run, which has the table of settings.
    #[command(hide = true)]
    Settings,
    /// Print a manual page, for `man -l -`.
    Man {
        /// The command that it is about, such as run; without one, all of lazyguard.
        command: Option<String>,
        /// Write the pages of all commands into this folder instead.
        #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
        out: Option<PathBuf>,
    },
    /// Print the completions of a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the driver symbols that the library stands in front of.
    #[command(hide = true)]
    Symbols {
        /// With the ids by which recordings name them.
        #[arg(long)]
        ids: bool,
    },
}
