//! `lazyguard run` at a terminal: keys, jobs, pipelines and scripts, played by `run_terminal.py`. Each also runs without the command, to
//! check that the expectation is what a shell does.

use crate::run_passes_on::{send, under};
use lazyguard_e2e::{command, root, Run, Work};
use std::time::Duration;

const LONG: Duration = lazyguard_e2e::PATIENCE;

fn play(test: &str, what: &str) {
    let work = Work::new(test);
    let player = root().join("testapps/e2e/tests/suite/run_terminal.py");
    for before in ["", &format!("{} run", command().display())] {
        let player = Run::new(&work, "python3").args([player.as_os_str()]).args([what, before]).args([work.path()]);
        let outcome = player.finish();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "as expected\n"), "{before}: {outcome}");
    }
}

macro_rules! played {
    ($($what:ident)*) => {$(
        #[test]
        fn $what() {
            play(lazyguard_e2e::this_test!(), stringify!($what));
        }
    )*};
}

played! {
    ctrl_c_reaches_the_program_once
    ctrl_c_ends_a_program_and_the_script_around_it
    ctrl_c_before_the_program_is_there_ends_it
    a_stop_that_ends_before_the_program_is_there_does_not_stop_it
    ctrl_z_stops_the_job_and_fg_continues_it
    a_program_that_stops_itself_gives_the_terminal_back
    a_script_goes_on_when_its_program_is_continued_by_its_process_id
    a_pipeline_keeps_the_terminal
    a_program_reads_the_terminal_at_once
    a_shell_with_jobs_of_its_own_works
    a_new_size_is_told_once
    a_background_job_comes_to_the_front
}

/// A user who stops a program by its process id continues it by its id, or by that of `lazyguard run`.
#[test]
fn a_program_that_was_not_stopped_at_the_terminal_is_only_waited_for() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for program_itself in [true, false] {
        let text = "import os, signal\nprint(os.getpid(), flush=True)\nos.kill(os.getpid(), signal.SIGSTOP)\nprint('continued')\n";
        let mut running = under(&work, &[], &["python3", "-c", text]).start();
        let program = running.until("its stop", LONG, |r| {
            let program = r.stdout().trim().to_owned();
            let stat = std::fs::read_to_string(format!("/proc/{program}/stat")).ok()?;
            stat.rsplit_once(") T ").map(|_| program)
        });
        std::thread::sleep(Duration::from_millis(200));
        assert!(running.runs());
        send("CONT", &if program_itself { program.clone() } else { running.process().to_string() });
        let outcome = running.finish_within(LONG);
        assert_eq!((outcome.code, outcome.stdout), (Some(0), format!("{program}\ncontinued\n")), "{program_itself}");
    }
}
