//! `lazyguard explain`: prints the page of a code.
//!
//! A page is Markdown, with neither tables nor fences. On a terminal it becomes text: the heading underlined, code indented, marks left out.

use crate::words::pages::{page, unmarked};
use crate::words::{print, write_line, Failure, Outcome};
use lazyguard_core::diagnose::{Code, Confidence};

const WORDS: [(&str, &str); 12] = [
    ("HANG", "a known deadlock has stood still for LAZYGUARD_HANG_AFTER (30 s), or anything for three times as long"),
    ("SLOW", "a call has been blocked for LAZYGUARD_HANG_AFTER (30 s), and what it waits for may still end"),
    ("STALLED", "the process submitted regularly, and has stopped with nothing in flight: what its host side waits for does not move"),
    ("SUSPECTED", "a call was in progress for less than LAZYGUARD_HANG_AFTER (30 s) when the process was last seen, and would be a hang"),
    ("RESOLVED", "what was reported is over: the call returned, and the program went on"),
    ("FAILED", "the guard made the blocked call return an error (LAZYGUARD_ON_HANG=fail); the hang stands"),
    ("REVOKED", "the guard revoked the communicator of the blocked calls, which returned (LAZYGUARD_ON_HANG=revoke); the hang stands"),
    ("ENDED", "a blocked call returned an error by itself; if the context's work is lost, the hang stands"),
    ("ABANDONED", "what was reported is over: the thread left its call without a return"),
    ("possible", Confidence::Possible.meaning()),
    ("likely", Confidence::Likely.meaning()),
    ("certain", Confidence::Certain.meaning()),
];

pub(crate) fn explain(code: Option<&str>) -> Outcome {
    print(|out| {
        let Some(wanted) = code else {
            let codes = Code::ALL.iter().map(|code| (code.name(), code.title()));
            let lines = codes.chain(WORDS).map(|(word, meaning)| format!("{word:<9}  {meaning}"));
            return Ok(out.lines(lines)?);
        };
        match (page(&code_name(wanted)), WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(wanted))) {
            (Some(page), _) => Ok(out.lines(plain(page))?),
            (None, Some((word, meaning))) => Ok(write_line!(out, "{word}: {meaning}")?),
            (None, None) => Err(Failure::Input(format!("{wanted}: no such code (see: lazyguard explain)"))),
        }
    })
}

fn code_name(wanted: &str) -> String {
    match wanted.bytes().all(|b| b.is_ascii_digit()) {
        true => format!("LG{wanted}"),
        false => wanted.to_ascii_uppercase(),
    }
}

fn plain(page: &str) -> Vec<String> {
    let in_text = |line: &str| match line.strip_prefix("## ") {
        Some(title) => {
            let title = unmarked(title);
            let rule = "=".repeat(title.chars().count());
            vec![title, rule]
        }
        // A block that is indented is code already.
        None if line.starts_with("    ") => vec![line.to_owned()],
        None => vec![unmarked(line)],
    };
    page.trim_end().lines().flat_map(in_text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::pages::PAGES;

    #[test]
    fn a_terminal_gets_text_and_no_marks() {
        let page =
            "## LG201: a `cold` load\n\n**Fix.** Call `k2<<<1, 1>>>` first, see [RESULTS.md](RESULTS.md) and\n[the \
                    page](PAGE.md#top).\n\n    a[0] = **p;\n\nend";
        let expect = [
            "LG201: a cold load",
            "==================",
            "",
            "Fix. Call k2<<<1, 1>>> first, see RESULTS.md and",
            "the page (PAGE.md#top).",
            "",
            "    a[0] = **p;",
            "",
            "end",
        ];
        assert_eq!(plain(page), expect);
        for code in Code::ALL {
            let page = page_of(code.name());
            assert!(!page.contains("\n|") && !page.contains("\n```") && !page.contains("\n#"), "{code}");
            let lines = plain(page);
            assert!(lines.iter().all(|line| !line.contains("](") && !line.starts_with("**")), "{code}: {lines:#?}");
            let is_marked = |line: &&String| !line.starts_with("    ") && (line.contains('`') || line.contains("**"));
            assert_eq!(lines.iter().find(is_marked), None, "{code}");
        }
    }

    fn page_of(code: &str) -> &'static str {
        page(code).unwrap_or_else(|| panic!("{code} has no page"))
    }

    #[test]
    fn a_code_is_found_by_its_number_and_every_word_of_a_report_is_explained() {
        assert_eq!(code_name("201"), "LG201");
        assert_eq!((code_name("lg201").as_str(), code_name("suspected").as_str()), ("LG201", "SUSPECTED"));
        for word in ["HANG", "SLOW", "STALLED", "SUSPECTED", "RESOLVED", "ABANDONED"] {
            assert!(WORDS.iter().any(|(known, _)| *known == word), "{word}");
        }
    }

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
        // Text between backquotes is every other piece.
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
            let on_a_card = format!("{root}/inside/{program}.cu");
            let is_kernel = std::path::Path::new(&on_a_card).is_file();
            assert!(is_kernel || folders.into_iter().any(is_there), "{program} is nowhere");
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
            // The page shows a suppression pattern for this code.
            assert!(page.contains(&format!("`{code}:")), "{code} has no pattern of its own");
            pages += 1;
        }
        assert_eq!(pages, 10);
    }
}
