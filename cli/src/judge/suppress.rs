//! Suppression files: reviewed hazards. A line is `TYPE:PATTERN`, as in the sanitizers' files; `#` begins a comment, `*` matches anything, and no
//! other character is special.
//!
//! Must not: suppress a hang, or ignore a line that it cannot read.

use super::fail_on::is_hazard;
use crate::machine::files;
use crate::words::Failure;
use lazyguard_core::diagnose::Code;
use lazyguard_core::hazard::Hazard;
use std::path::{Path, PathBuf};
use wildmatch::WildMatchPattern;

/// `*` matches anything; no character matches any one letter.
type Glob = WildMatchPattern<'*', '\0'>;

/// Stands for the kernel of a hazard without one, as in its key.
const NO_KERNEL: &str = "-";

#[derive(Clone, Debug)]
pub(crate) struct Suppression {
    pub at: String,
    pub line: String,
    what: What,
    glob: Glob,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Code(Code),
    Kernel,
    Call,
    Program,
    Key,
}

impl Suppression {
    pub fn text(&self) -> String {
        format!("{}: {}", self.at, self.line)
    }

    pub fn matches(&self, hazard: &Hazard, program: &str) -> bool {
        let kernel = hazard.kernel.as_deref().unwrap_or(NO_KERNEL);
        match self.what {
            What::Code(code) => code == hazard.code && self.glob.matches(kernel),
            What::Kernel => self.glob.matches(kernel),
            What::Call => self.glob.matches(&hazard.call),
            What::Program => self.glob.matches(program),
            What::Key => self.glob.matches(&hazard.key()),
        }
    }
}

pub(crate) fn read(files: &[PathBuf]) -> Result<Vec<Suppression>, Failure> {
    let mut all = Vec::new();
    for path in files {
        let failure = |error| Failure::Input(format!("suppressions {}: {error}", path.display()));
        all.extend(parse(path, &files::read_input(path).map_err(failure)?)?);
    }
    Ok(all)
}

fn parse(path: &Path, text: &str) -> Result<Vec<Suppression>, Failure> {
    // The byte-order mark that Windows editors write.
    let text = text.trim_start_matches('\u{feff}');
    let lines = (1..).zip(text.lines().map(str::trim)).filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let suppression = |(number, line): (u64, &str)| {
        let at = format!("{}:{number}", path.display());
        let (what, pattern) = split(line).map_err(|why| Failure::Input(format!("{at}: {why}")))?;
        Ok(Suppression { at, line: line.to_owned(), what, glob: Glob::new(pattern) })
    };
    lines.map(suppression).collect()
}

const EXPECTED: &str = "expected TYPE:PATTERN with a code such as LG101, kernel, call, program or key for TYPE";

fn split(line: &str) -> Result<(What, &str), String> {
    let (name, pattern) = line.split_once(':').ok_or_else(|| format!("{line:?} has no colon; {EXPECTED}"))?;
    let what = match name.trim_end() {
        "kernel" => What::Kernel,
        "call" => What::Call,
        "program" => What::Program,
        "key" => What::Key,
        name => match Code::ALL.iter().find(|code| code.name().eq_ignore_ascii_case(name)) {
            Some(code) if is_hazard(*code) => What::Code(*code),
            Some(code) => return Err(format!("{code} is the code of a hang, and a hang cannot be suppressed")),
            None => return Err(format!("{name:?} is no type; {EXPECTED}")),
        },
    };
    match pattern.trim_start() {
        "" => Err(format!("there is no pattern behind {name}: (* stands for anything)")),
        pattern => Ok((what, pattern)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::test_samples::hazard;

    fn parsed(text: &str) -> Result<Vec<Suppression>, String> {
        parse(Path::new("known.txt"), text).map_err(|failure| failure.to_string())
    }

    #[test]
    fn each_type_looks_at_its_own_part_of_a_hazard() {
        let hazard = hazard(Code::LG101, Some("void k<float, 4>(int*)"));
        for (line, expect) in [
            ("LG101:*", true),
            ("lg101:void k<*>(int*)", true),
            ("LG101:void k<float, 4>(int*)", true),
            ("LG101:k", false),
            ("LG101:void k<float, ?>(int*)", false),
            ("LG102:*", false),
            ("kernel:*k<float*", true),
            ("kernel:k", false),
            ("call:cuLaunchKernel", true),
            ("call:cuLaunch*", true),
            ("call:Launch", false),
            ("program:train", true),
            ("program:tr*n", true),
            ("program:serve", false),
            ("key:LG101|void k<float, 4>(int*)|cuLaunchKernel|non-blocking", true),
            ("key:LG101|*|non-blocking", true),
            ("key:LG101", false),
        ] {
            let suppressions = parsed(line).unwrap();
            assert_eq!(suppressions[0].matches(&hazard, "train"), expect, "{line}");
        }
    }

    #[test]
    fn a_hazard_without_a_kernel_has_a_dash_for_one() {
        let hazard = hazard(Code::LG104, None);
        for (line, expect) in [("LG104:*", true), ("kernel:-", true), ("key:LG104|-|*", true), ("LG104:k*", false)] {
            assert_eq!(parsed(line).unwrap()[0].matches(&hazard, "train"), expect, "{line}");
        }
    }

    #[test]
    fn comments_and_blank_lines_are_passed_over_and_every_line_knows_where_it_stands() {
        let all = parsed("\u{feff}# what we know\n\n  LG101 : k2  \n\t# more\nprogram:a # b\n").unwrap();
        let seen: Vec<_> = all.iter().map(|one| (one.at.as_str(), one.line.as_str())).collect();
        assert_eq!(seen, [("known.txt:3", "LG101 : k2"), ("known.txt:5", "program:a # b")]);
        assert!(all[0].matches(&hazard(Code::LG101, Some("k2")), ""));
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named_by_its_number() {
        for (text, why) in [
            ("\n\nLG101", "known.txt:3: \"LG101\" has no colon; expected TYPE:PATTERN"),
            ("LG101:*\nstream:*", "known.txt:2: \"stream\" is no type"),
            ("LG100:*", "known.txt:1: \"LG100\" is no type"),
            ("LG201:*", "known.txt:1: LG201 is the code of a hang, and a hang cannot be suppressed"),
            ("kernel:", "known.txt:1: there is no pattern behind kernel:"),
            ("kernel:   ", "known.txt:1: there is no pattern behind kernel:"),
            (":*", "known.txt:1: \"\" is no type"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.starts_with(why), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_said() {
        let error = read(&[PathBuf::from("/no/such/file")]).unwrap_err().to_string();
        assert!(error.starts_with("suppressions /no/such/file: "), "{error}");
    }
}
