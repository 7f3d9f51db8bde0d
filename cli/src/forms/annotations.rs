//! Annotations: lines that a CI system shows beside the source. Each text is first made one line for a person, then escaped for the system: no
//! name of a kernel can act as a separator, or reach the system's log as a line of its own.

use super::places::Place;
use super::text;
use crate::judge::{gist, hangs, stalled, FailedOn, Seen, Status};
use lazyguard_core::report::{one_line, Block};
use std::fmt::Write as _;
use std::str::FromStr;
use twox_hash::XxHash3_64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Annotations {
    #[default]
    Auto,
    Off,
    For(System),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    Github,
    /// Has no such lines: the summary is written there.
    Gitlab,
    Azure,
    Teamcity,
}

impl Annotations {
    pub fn system(self) -> Option<System> {
        match self {
            Self::Off => None,
            Self::For(system) => Some(system),
            Self::Auto => detected(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty())),
        }
    }
}

impl FromStr for Annotations {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, SYSTEMS.iter().find(|(_, word, _)| *word == text)) {
            ("auto", _) => Ok(Self::Auto),
            ("off", _) => Ok(Self::Off),
            (_, Some((system, ..))) => Ok(Self::For(*system)),
            _ => Err("expected auto, off, github, gitlab, azure or teamcity".to_owned()),
        }
    }
}

const SYSTEMS: [(System, &str, &str); 4] = [
    (System::Github, "github", "GITHUB_ACTIONS"),
    (System::Gitlab, "gitlab", "GITLAB_CI"),
    (System::Azure, "azure", "TF_BUILD"),
    (System::Teamcity, "teamcity", "TEAMCITY_VERSION"),
];

fn detected(is_set: impl Fn(&str) -> bool) -> Option<System> {
    SYSTEMS.iter().find(|(.., variable)| is_set(variable)).map(|(system, ..)| *system)
}

struct Shown {
    code: &'static str,
    title: String,
    text: String,
    key: String,
    place: Option<Place>,
    fails: bool,
}

pub(crate) fn lines(seen: &Seen<'_>, annotations: Annotations) -> Vec<String> {
    let Some(system) = annotations.system() else { return Vec::new() };
    let program = text::program(seen);
    shown(seen).iter().filter_map(|shown| shown.line(system, &program)).collect()
}

fn shown(seen: &Seen<'_>) -> Vec<Shown> {
    let hangs = hangs(&seen.processes).into_iter().map(|hang| Shown {
        code: hang.code().name(),
        title: one_line(&format!("{}: {} hangs", hang.code(), hang.process.title())).into_owned(),
        text: text_of(hang.steps()),
        key: hang.key(),
        place: hang.line().map(|line| Place::of(&line, &seen.here)),
        fails: true,
    });
    let stalls = stalled(&seen.processes).into_iter().map(|stall| Shown {
        code: "stalled",
        title: one_line(&format!("stalled: {} has stopped", stall.process.title())).into_owned(),
        text: text_of(gist(stall.report)),
        key: stall.key(),
        place: None,
        fails: seen.failed == Some(FailedOn::Stall),
    });
    let causes = seen.judged.by_cause().into_iter();
    let causes = causes.filter_map(|same| Some((*same.first()?, text::line_of_cause(&same))));
    let causes = causes.filter(|(finding, _)| finding.fails || !finding.hazard.prevented);
    let hazards = causes.filter(|(finding, _)| finding.status == Status::New).map(|(finding, line)| Shown {
        code: finding.hazard.code.name(),
        title: one_line(&format!("{}: {}", finding.hazard.code, finding.hazard.title)).into_owned(),
        text: text_of([line, finding.hazard.what.clone(), format!("fix: {}", finding.hazard.fix)]),
        key: finding.key.clone(),
        place: finding.line.as_ref().map(|line| Place::of(line, &seen.here)),
        fails: finding.fails,
    });
    let unguarded = seen.unguarded().map(|sentence| Shown {
        code: "unguarded",
        title: one_line(&format!("unguarded: {}", text::program(seen))).into_owned(),
        text: text_of([sentence]),
        key: "unguarded".to_owned(),
        place: None,
        fails: seen.failed == Some(FailedOn::Unguarded),
    });
    hangs.chain(stalls).chain(hazards).chain(unguarded).collect()
}

fn text_of(lines: impl IntoIterator<Item = String>) -> String {
    Block::of(lines).as_str().trim_end_matches('\n').to_owned()
}

impl Shown {
    fn line(&self, system: System, program: &str) -> Option<String> {
        let level = if self.fails { "error" } else { "warning" };
        let place = self.place.as_ref().filter(|place| place.is_inside);
        let place = place.map(|place| (one_line(&place.path), place.line));
        match system {
            System::Gitlab => None,
            // `::error file=F,line=L,title=T::MESSAGE`.
            System::Github => {
                let place = place.map(|(path, line)| format!("file={},line={line},", github_property(&path)));
                let (place, title) = (place.unwrap_or_default(), github_property(&self.title));
                Some(format!("::{level} {place}title={title}::{}", github_data(&self.text)))
            }
            // `##vso[task.logissue type=error;sourcepath=F;linenumber=L;code=C;]MESSAGE`.
            System::Azure => {
                let path = |path: &str| azure_data(path).replace(';', "%3B").replace(']', "%5D");
                let place = place.map(|(file, line)| format!("sourcepath={};linenumber={line};", path(&file)));
                let (place, text) = (place.unwrap_or_default(), azure_data(&format!("{}\n{}", self.title, self.text)));
                Some(format!("##vso[task.logissue type={level};{place}code={};]{text}", self.code))
            }
            System::Teamcity => Some(self.teamcity(program)),
        }
    }

    /// `##teamcity[buildProblem ...]` for what fails the run, since it fails the build, and a warning for the rest.
    fn teamcity(&self, program: &str) -> String {
        let place = self.place.as_ref().map(|place| format!("{}:{}: ", one_line(&place.path), place.line));
        let place = place.unwrap_or_default();
        let text = teamcity(&format!("{place}{}\n{}", self.title, self.text), MOST_TEAMCITY);
        if self.fails {
            // An identity is at most 60 letters long, and the same from build to build.
            let digest = XxHash3_64::oneshot(format!("{program}\0{}", self.key).as_bytes());
            let identity = format!("lazyguard_{}_{digest:016x}", self.code);
            format!("##teamcity[buildProblem description='{text}' identity='{identity}']")
        } else {
            format!("##teamcity[message text='{text}' status='WARNING']")
        }
    }
}

fn github_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn github_property(text: &str) -> String {
    github_data(text).replace(':', "%3A").replace(',', "%2C")
}

fn azure_data(text: &str) -> String {
    text.replace('%', "%AZP25").replace('\r', "%0D").replace('\n', "%0A")
}

const MOST_TEAMCITY: usize = 4000;

/// The text with everything escaped that the form of TeamCity's messages gives a meaning, cut where it would be too long.
fn teamcity(text: &str, most: usize) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        let before = escaped.len();
        match letter {
            '\n' => escaped.push_str("|n"),
            '\r' => escaped.push_str("|r"),
            '|' | '\'' | '[' | ']' => escaped.extend(['|', letter]),
            letter if letter.is_ascii() => escaped.push(letter),
            letter => letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                let _ = write!(escaped, "|0x{unit:04x}");
            }),
        }
        if escaped.len() > most {
            escaped.truncate(before);
            break;
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::test_samples::{seen, Told};

    #[test]
    fn a_system_is_known_by_its_variable() {
        for (name, expect) in [
            ("GITHUB_ACTIONS", Some(System::Github)),
            ("GITLAB_CI", Some(System::Gitlab)),
            ("TF_BUILD", Some(System::Azure)),
            ("TEAMCITY_VERSION", Some(System::Teamcity)),
            ("CI", None),
        ] {
            assert_eq!(detected(|asked| asked == name), expect, "{name}");
        }
        assert_eq!("azure".parse(), Ok(Annotations::For(System::Azure)));
        assert_eq!("auto".parse(), Ok(Annotations::Auto));
        assert_eq!("off".parse::<Annotations>().unwrap().system(), None);
        assert!("Github".parse::<Annotations>().unwrap_err().contains("github"));
    }

    /// A kernel and a file whose names would end a line's part, or the line, in every one of the forms.
    fn nasty(told: impl FnOnce(&Seen<'_>)) {
        let kernel = "k<'a', 100%>[1]|\u{e9}\u{1f600};::\n##vso[x]\u{1b}[2J".to_owned();
        let nasty = Told { kernel, file: "src/a,b;c]d:e%20.cpp".to_owned(), ..Told::default() };
        seen(&nasty, told);
    }

    fn only(seen: &Seen<'_>, system: System) -> String {
        let lines = lines(seen, Annotations::For(system));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(!lines[0].contains(char::is_control), "{lines:?}");
        lines[0].clone()
    }

    #[test]
    fn github_is_told_in_its_escapes() {
        nasty(|seen| {
            let line = only(seen, System::Github);
            assert!(
                line.starts_with(
                    "::warning file=src/a%2Cb;c]d%3Ae%2520.cpp,line=12,title=LG101%3A a cold function was"
                ),
                "{line}"
            );
            assert!(line.contains("k<'a', 100%25>[1]|\u{e9}\u{1f600};::\\n\\x23#vso[x]\\x1b[2J"), "{line}");
        });
    }

    #[test]
    fn azure_is_told_in_its_escapes() {
        nasty(|seen| {
            let line = only(seen, System::Azure);
            let start = "##vso[task.logissue type=warning;sourcepath=src/a,b%3Bc%5Dd:e%AZP2520.cpp;linenumber=12;code=LG101;]LG101: a cold";
            assert!(line.starts_with(start), "{line}");
            assert!(line.contains("100%AZP25>[1]|\u{e9}\u{1f600};::\\n\\x23#vso[x]\\x1b[2J"), "{line}");
        });
    }

    #[test]
    fn teamcity_is_told_in_its_escapes() {
        nasty(|seen| {
            let line = only(seen, System::Teamcity);
            assert!(line.starts_with("##teamcity[message text='src/a,b;c|]d:e%20.cpp:12: LG101: a cold"), "{line}");
            assert!(line.contains("k<|'a|', 100%>|[1|]|||0x00e9|0xd83d|0xde00;::\\n\\x23#vso|[x|]\\x1b|[2J"), "{line}");
            assert!(line.ends_with("' status='WARNING']"), "{line}");
        });
    }

    #[test]
    fn what_fails_the_run_is_an_error_and_for_teamcity_a_problem_of_the_build() {
        let told = Told { fail_on: "hazard".to_owned(), ..Told::default() };
        seen(&told, |seen| {
            assert!(only(seen, System::Github).starts_with("::error title=LG101"), "no file is known");
            assert!(only(seen, System::Azure).starts_with("##vso[task.logissue type=error;code=LG101;]"));
            let line = only(seen, System::Teamcity);
            assert!(line.starts_with("##teamcity[buildProblem description='LG101"), "{line}");
            let (_, identity) = line.split_once("identity='").unwrap();
            let identity = identity.strip_suffix("']").unwrap();
            assert!(identity.len() <= 60 && identity.starts_with("lazyguard_LG101_"), "{identity}");
            assert_eq!(lines(seen, Annotations::For(System::Gitlab)), Vec::<String>::new());
        });
    }

    #[test]
    fn what_is_known_or_prevented_is_not_shown() {
        for told in [
            Told { prevented: true, ..Told::default() },
            Told { known: true, ..Told::default() },
            Told { suppressions: "LG101:*".to_owned(), ..Told::default() },
        ] {
            seen(&told, |seen| assert_eq!(lines(seen, Annotations::For(System::Github)), Vec::<String>::new()));
        }
    }

    #[test]
    fn a_hang_is_an_error_with_who_waits_for_whom() {
        seen(&Told { hang: true, no_hazard: true, ..Told::default() }, |seen| {
            let line = only(seen, System::Github);
            assert!(
                line.starts_with("::error title=LG201%3A train (process 4242%2C rank 3) hangs::k2 cannot start: "),
                "{line}"
            );
            assert!(
                line.contains("%0Athread 100 \"main\" is in cuCtxSynchronize") && line.contains("%0Afix: load"),
                "{line}"
            );
        });
    }

    #[test]
    fn a_stall_is_an_error_where_the_run_fails_for_it() {
        let told = Told { stalled: true, no_hazard: true, ..Told::default() };
        let expect = "title=stalled%3A train (process 4242%2C rank 3) has stopped::it opens /data/x (class file)";
        seen(&told, |seen| assert_eq!(only(seen, System::Github), format!("::warning {expect}")));
        let failing = Told { fail_on: "stall".to_owned(), ..told };
        seen(&failing, |seen| assert_eq!(only(seen, System::Github), format!("::error {expect}")));
    }

    #[test]
    fn what_was_not_guarded_is_an_error_where_the_run_fails_for_it() {
        let told = Told { no_hazard: true, unguarded: true, ..Told::default() };
        let github = |told: &Told| {
            let mut line = String::new();
            seen(told, |seen| line = only(seen, System::Github));
            line
        };
        let expect = "title=unguarded%3A train::process 7 (app) loaded the CUDA driver without the guard";
        assert!(github(&told).starts_with(&format!("::warning {expect}")), "{}", github(&told));
        let failing = Told { fail_on: "unguarded".to_owned(), ..told };
        assert!(github(&failing).starts_with(&format!("::error {expect}")), "{}", github(&failing));
    }

    #[test]
    fn a_long_text_is_cut_and_never_within_an_escape() {
        assert_eq!(teamcity("ab|cd", 4), "ab||");
        assert_eq!(teamcity("ab|cd", 3), "ab");
        assert_eq!(teamcity("\u{e9}", 6), "");
        assert_eq!(teamcity(&"x".repeat(5000), MOST_TEAMCITY).len(), MOST_TEAMCITY);
    }
}
