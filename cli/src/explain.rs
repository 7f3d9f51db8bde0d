//! `lazyguard explain`: the page of a code. The pages are those of `docs/HAZARDS.md`, as they were when this was built.

use crate::output::{write_line, Output};
use crate::{Failure, Outcome};
use lazyguard_core::diagnose::Code;
use std::process::ExitCode;

const PAGES: &str = include_str!("../../docs/HAZARDS.md");

/// Prints one page, or the list of codes.
pub(crate) fn explain(code: Option<&str>) -> Outcome {
    let mut out = Output::standard();
    let Some(wanted) = code else {
        for code in Code::ALL {
            write_line!(out, "{code}  {}", code.title())?;
        }
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    };
    let name = wanted.to_ascii_uppercase();
    match page(&name) {
        Some(page) => writeln!(out.raw(), "{}", page.trim_end())?,
        None => return Err(Failure::Input(format!("{wanted}: no such code (see: lazyguard explain)"))),
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// What a page says of what happened, in one line of plain text; `None` where there is no such paragraph.
pub(crate) fn what_happened(code: &str) -> Option<String> {
    let (_, rest) = page(code)?.split_once("**What happened.**")?;
    let paragraph = rest.split("\n\n").next()?;
    Some(paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The part of the document under the code's heading.
pub(crate) fn page(code: &str) -> Option<&'static str> {
    let start = PAGES.find(&format!("\n## {code}:"))? + 1;
    let rest = &PAGES[start..];
    let end = rest[3..].find("\n## ").map_or(rest.len(), |at| at + 3);
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_page_with_its_title() {
        for code in Code::ALL {
            let page = page(code.name()).unwrap_or_else(|| panic!("{code} has no page"));
            assert!(
                page.starts_with(&format!("## {code}: {}", code.title())),
                "{code}: {}",
                page.lines().next().unwrap()
            );
            assert!(page.contains("**Fix.**"), "{code} says no fix");
        }
    }

    /// Names of programs: those that a page calls minimal, and those in the table at the end.
    fn programs() -> Vec<&'static str> {
        let minimal = PAGES.split("**Minimal program.**").skip(1).filter_map(|rest| rest.split("\n\n").next());
        let fooled = PAGES.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        // What stands between backquotes is every other piece.
        minimal.flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2)).chain(fooled).collect()
    }

    #[test]
    fn every_program_that_is_named_is_there() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../testapps");
        let programs = programs();
        assert!(programs.len() > Code::ALL.len(), "{programs:?}");
        for program in programs {
            let is_there = |folder| std::path::Path::new(&format!("{root}/{folder}/{program}.cpp")).is_file();
            let folders = ["apps", "corpus/hang", "corpus/slow", "corpus/hazard"];
            assert!(folders.into_iter().any(is_there), "{program} is nowhere");
        }
    }

    #[test]
    fn a_page_of_a_hazard_has_every_part_and_its_programs_state_its_code() {
        let hazards = Code::ALL.iter().filter(|code| code.number() < 200);
        let mut pages = 0;
        for code in hazards {
            let page = page(code.name()).unwrap_or_else(|| panic!("{code} has no page"));
            let parts = [
                "What happened",
                "Minimal program",
                "Why it matters",
                "Fix",
                "What the guard does",
                "How to suppress it",
            ];
            let places: Vec<_> = parts.iter().map(|part| page.find(&format!("\n**{part}.** "))).collect();
            assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{code}: {parts:?} stand at {places:?}");
            let minimal = page.split("**Minimal program.**").nth(1).and_then(|rest| rest.split("\n\n").next());
            let minimal = minimal.and_then(|paragraph| paragraph.split('`').nth(1)).unwrap_or_default();
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../testapps/corpus/hazard");
            let source = std::fs::read_to_string(format!("{source}/{minimal}.cpp"))
                .unwrap_or_else(|error| panic!("{code}: {minimal}: {error}"));
            assert!(source.contains(&format!("\n// hazard: {code} ")), "{minimal} does not state {code}");
            // Nobody wants to read of what an option suppresses and find another one there.
            assert!(page.contains(&format!("`{code}:")), "{code} has no pattern of its own");
            pages += 1;
        }
        assert_eq!(pages, 9);
    }
}
