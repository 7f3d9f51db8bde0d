//! Plays many programs, and prints those that show something, made small, as files for `testapps/oracle/programs`.
//!
//!     cargo run -p lazyguard-oracle -- [--ranks] [--programs N] [--seed N] [--first N] [--seconds N] [--beside N] [--finds N] [--mode MODE] [--keep FOLDER] [--as-found]
//!     cargo run -p lazyguard-oracle -- [--ranks] --play FILE [--mode MODE]
//!     cargo run -p lazyguard-oracle -- [--ranks] --show NUMBER [--seed N]
//!
//! With `--ranks` they are jobs of several ranks. With `--hazards` the hazards of runs that pass are compared with the other orders of their programs.
//! With `--explore` it is seen whether `lazyguard explore` finds the hangs of those orders.
#![expect(clippy::print_stdout, reason = "a program for people")]

use lazyguard_oracle::campaign::{check_whole, play, Case, Find, Plan};
use lazyguard_oracle::explored::Explored;
use lazyguard_oracle::foreseen::Foreseen;
use lazyguard_oracle::play::Mode;
use lazyguard_oracle::properties::Found;
use lazyguard_oracle::{Job, Program};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            println!("{why}");
            ExitCode::from(2)
        }
    }
}

/// Without a value.
const SWITCHES: &[&str] = &["--as-found", "--ranks", "--hazards", "--explore"];

/// How many finds there are.
fn run(arguments: Vec<String>) -> Result<usize, String> {
    let mut options = HashMap::new();
    let mut words = arguments.into_iter();
    while let Some(name) = words.next() {
        let value = if SWITCHES.contains(&name.as_str()) {
            String::new()
        } else {
            words.next().ok_or(format!("{name}: no value"))?
        };
        options.insert(name, value);
    }
    if options.contains_key("--ranks") {
        run_with::<Job>(&options, Job::parse)
    } else if options.contains_key("--explore") {
        run_with::<Explored>(&options, |text| Program::parse(text).map(Explored))
    } else if options.contains_key("--hazards") {
        run_with::<Foreseen>(&options, |text| Program::parse(text).map(Foreseen))
    } else {
        run_with::<Program>(&options, Program::parse)
    }
}

fn run_with<C: Case + Send>(
    options: &HashMap<String, String>,
    parse: fn(&str) -> Result<C, String>,
) -> Result<usize, String> {
    let number = |name: &str, default: u64| {
        options.get(name).map_or(Ok(default), |text| text.parse().map_err(|_| format!("{name} {text}: no number")))
    };
    let mode = options.get("--mode").map(|name| Mode::named(name).ok_or(format!("no mode {name}"))).transpose()?;
    let seed = number("--seed", 1)?;
    if let Some(file) = options.get("--play") {
        let program = parse(&fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?)?;
        let found = check_whole("oracle-played", &program, mode.unwrap_or(Mode::Default));
        match &found {
            Found::Good(end) | Found::Told(end, _) => println!("{end}"),
            Found::Bad(property, facts) => println!("{property}: {facts}"),
        }
        return Ok(usize::from(matches!(found, Found::Bad(..))));
    }
    if options.contains_key("--show") {
        print!("{}", C::tree(seed, number("--show", 0)?).current());
        return Ok(0);
    }
    let plan = Plan {
        seed,
        first: number("--first", 0)?,
        programs: number("--programs", 100)?,
        time: Duration::from_secs(number("--seconds", 3600)?),
        beside: number("--beside", 8)? as usize,
        mode,
        smaller: !options.contains_key("--as-found"),
        finds: number("--finds", u64::MAX)? as usize,
    };
    let results = play(&plan, |find: &Find<C>| {
        let text = find.file(seed);
        println!("--- {text}--- {}\n", find.facts);
        if let Some(folder) = options.get("--keep") {
            let path =
                Path::new(folder).join(format!("{}-{seed}-{}.txt", find.property.replace(' ', "-"), find.number));
            if let Err(error) = fs::write(&path, text) {
                println!("{}: {error}", path.display());
            }
        }
    });
    for find in &results.once {
        println!("once: program {} ({:?}): {}: {}", find.number, find.mode, find.property, find.facts);
    }
    for (end, count) in &results.good {
        println!("{count} {end}");
    }
    C::shares(&results).iter().for_each(|line| println!("{line}"));
    let (waits, stuck) = results.waits;
    if stuck > 0 {
        println!("{:.2} waits in the minimal set, on average", waits as f64 / stuck as f64);
    }
    let passed = results.good.values().sum::<u64>();
    println!("{} played", passed as usize + results.finds.len() + results.once.len());
    println!("{passed} passed, {} failed, {} failed once", results.finds.len(), results.once.len());
    Ok(results.finds.len())
}
