//! The tests generated from lists: one for each program and each question that fits it, named `FILE::PROGRAM::QUESTION`.
//!
//! | file | asks | of |
//! |---|---|---|
//! | `apps` | what it does bare, guarded, and guarded without preloading | every program of `programs.json` |
//! | `killed` | what is known of it once it is killed while it hangs | every program of `programs.json` that hangs |
//! | `hostile` | whether it does the same with the guard as without | every run of `hostile/programs.json` |
//! | `corpus` | the code, the culprit, and that nothing slow is called a hang | every program of `corpus/hang` and `corpus/slow` |
//! | `reproducers` | whether its reproducer gets its code | programs of `corpus/hang` |
//! | `hazards` | its hazards, and that the controls have none | every program of `corpus/hazard` |
//!
//! The harness reads the lists when it lists the tests, so a new program needs no build of this file. It takes the arguments of
//! Rust's own: `cargo test -p lazyguard-e2e --test programs -- corpus::wait_cycle`.

use lazyguard_e2e::Expect;
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

mod apps;
mod corpus;
mod hazards;
mod hostile;
mod killed;
mod reproducers;

/// A question's name, and the function that asks it: of the test's name, and the program's.
type Question = (&'static str, fn(&str, &str));

/// Functions as questions of their own names.
macro_rules! questions {
    ($($question:ident),+ $(,)?) => { &[$((stringify!($question), $question as fn(&str, &str))),+] };
}
use questions;

fn main() -> ExitCode {
    let lists = [
        apps::trials(),
        killed::trials(),
        hostile::trials(),
        corpus::trials(),
        reproducers::trials(),
        hazards::trials(),
    ];
    libtest_mimic::run(&Arguments::from_args(), lists.into_iter().flatten().collect()).exit_code()
}

/// A test for each question about a program.
fn ask(file: &str, program: &str, questions: &[Question]) -> Vec<Trial> {
    let trial = |(question, ask): &Question| {
        let (test, program, ask) = (format!("{file}::{program}::{question}"), program.to_owned(), *ask);
        Trial::test(test.clone(), move || {
            ask(&test, &program);
            Ok(())
        })
    };
    questions.iter().map(trial).collect()
}

/// The programs of a part of the corpus. Each has to stand in the folder that its first lines say.
fn part_of_corpus(part: &str) -> Vec<lazyguard_e2e::InCorpus> {
    let mut programs = lazyguard_e2e::corpus();
    programs.retain(|program| program.source.parent().is_some_and(|folder| folder.ends_with(part)));
    for program in &programs {
        let its_part = match program.header.expect {
            Expect::Hang { .. } => "hang",
            Expect::Ends { .. } => "slow",
            Expect::Hazards { .. } => "hazard",
        };
        assert_eq!(its_part, part, "{} is in the wrong folder", program.source.display());
    }
    programs
}
