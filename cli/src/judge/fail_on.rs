//! The findings that make a run fail: `--fail-on hang,hazard:LG101,LG104,prevented`.

use lazyguard_core::diagnose::Code;
use lazyguard_core::hazard::Hazard;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A kind of finding that makes a run fail where it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FailedOn {
    Hang,
    Stall,
    Hazard,
    Prevented,
    /// A process that used CUDA without the guard, and a run in which nothing was recorded.
    Unguarded,
    Retried,
    /// LG110 by its name.
    LateLoad,
    Code(Code),
}

impl FailedOn {
    const KINDS: [Self; 7] =
        [Self::Hang, Self::Stall, Self::Hazard, Self::Prevented, Self::Unguarded, Self::Retried, Self::LateLoad];

    pub fn word(self) -> &'static str {
        match self {
            Self::Hang => "hang",
            Self::Stall => "stall",
            Self::Hazard => "hazard",
            Self::Prevented => "prevented",
            Self::Unguarded => "unguarded",
            Self::Retried => "retried",
            Self::LateLoad => "late-load",
            Self::Code(code) => code.name(),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailOn(BTreeSet<FailedOn>);

impl FailOn {
    pub fn is_anything(&self) -> bool {
        !self.0.is_empty()
    }

    pub fn has(&self, kind: FailedOn) -> bool {
        self.0.contains(&kind)
    }

    /// Whether a hazard fails the run, unless it is suppressed or in the baseline. One that is only possible never does.
    pub fn covers(&self, hazard: &Hazard) -> bool {
        match hazard.prevented {
            true => self.has(FailedOn::Prevented),
            false if !hazard.counts() => false,
            false if hazard.code == Code::LG110 && self.has(FailedOn::LateLoad) => true,
            false => self.has(FailedOn::Hazard) || self.has(FailedOn::Code(hazard.code)),
        }
    }
}

impl FromStr for FailOn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // An empty list is the default: a later option can cancel an earlier one.
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let kind = |word: &str| match FailedOn::KINDS.into_iter().find(|kind| kind.word() == word) {
            Some(kind) => Ok(kind),
            None if word.is_empty() => Err(format!("a part of it is empty; {EXPECTED}")),
            None => hazard_code(word.strip_prefix("hazard:").unwrap_or(word)).map(FailedOn::Code),
        };
        text.split(',').map(|word| kind(word.trim())).collect::<Result<_, _>>().map(Self)
    }
}

const EXPECTED: &str =
    "expected hang, stall, hazard, late-load, prevented, unguarded, retried, or codes such as LG101 or hazard:LG101, with commas between them";

fn hazard_code(name: &str) -> Result<Code, String> {
    match Code::ALL.iter().find(|code| code.name().eq_ignore_ascii_case(name)) {
        Some(code) if is_hazard(*code) => Ok(*code),
        Some(code) => Err(format!("{code} is the code of a hang: say hang")),
        None => Err(format!("{name:?} is nothing that can be found; {EXPECTED}")),
    }
}

pub(crate) fn is_hazard(code: Code) -> bool {
    code.number() < 200
}

impl fmt::Display for FailOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::test_samples::hazard;
    use lazyguard_core::diagnose::Confidence;

    #[test]
    fn every_form_of_it_is_read_and_written_again() {
        for (text, written) in [
            ("hang", "hang"),
            ("hang,hazard:LG101,LG104", "hang,LG101,LG104"),
            (" prevented , hazard", "hazard,prevented"),
            ("unguarded,hang", "hang,unguarded"),
            ("stall,hang", "hang,stall"),
            ("retried,unguarded", "unguarded,retried"),
            ("lg104,hazard:lg101", "LG101,LG104"),
            ("late-load,LG110", "late-load,LG110"),
        ] {
            let fail_on: FailOn = text.parse().unwrap();
            assert_eq!(fail_on.to_string(), written, "{text}");
            assert_eq!(written.parse(), Ok(fail_on));
        }
        assert_eq!((FailOn::default().to_string().as_str(), "".parse()), ("", Ok(FailOn::default())));
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for (text, why) in [
            (",", "is empty"),
            ("hang,", "is empty"),
            ("hangs", "\"hangs\" is nothing that can be found; expected hang, stall"),
            ("LG201", "LG201 is the code of a hang: say hang"),
            ("hazard:LG299", "LG299 is the code of a hang"),
            ("LG100", "\"LG100\" is nothing"),
            ("hazard:", "\"\" is nothing"),
            ("hang;hazard", "\"hang;hazard\" is nothing"),
        ] {
            let error = text.parse::<FailOn>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_prevented_hazard_fails_a_run_only_where_that_is_asked_for() {
        let met = hazard(Code::LG101, Some("k2"));
        let prevented = Hazard { prevented: true, ..met.clone() };
        for (text, fails_met, fails_prevented) in [
            ("hang", false, false),
            ("hazard", true, false),
            ("LG101", true, false),
            ("hazard:LG104", false, false),
            ("prevented", false, true),
            ("prevented,LG101", true, true),
        ] {
            let fail_on: FailOn = text.parse().unwrap();
            assert_eq!((fail_on.covers(&met), fail_on.covers(&prevented)), (fails_met, fails_prevented), "{text}");
            assert!(!fail_on.covers(&Hazard { confidence: Confidence::Possible, ..met.clone() }), "{text}");
            let certain = Hazard { confidence: Confidence::Certain, ..met.clone() };
            assert_eq!(fail_on.covers(&certain), fails_met, "{text}");
        }
        let late: FailOn = "late-load".parse().unwrap();
        assert!(late.covers(&hazard(Code::LG110, Some("k2"))) && !late.covers(&met));
    }
}
