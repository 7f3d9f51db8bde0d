//! What makes a run fail: `--fail-on hang,hazard:LG101,LG104,prevented`.

use lazyguard_core::diagnose::Code;
use lazyguard_core::hazard::Hazard;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailOn {
    pub hang: bool,
    pub hazard: bool,
    pub codes: BTreeSet<Code>,
    pub prevented: bool,
    /// A process that used CUDA without the guard, and a run in which nothing was recorded.
    pub unguarded: bool,
    pub retried: bool,
}

impl FailOn {
    pub fn is_anything(&self) -> bool {
        *self != Self::default()
    }

    /// Whether a hazard fails the run, unless it is suppressed or in the baseline.
    pub fn covers(&self, hazard: &Hazard) -> bool {
        match hazard.prevented {
            true => self.prevented,
            false => self.hazard || self.codes.contains(&hazard.code),
        }
    }
}

impl FromStr for FailOn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut fail_on = Self::default();
        // An empty list is the default: a later option can cancel an earlier one.
        if text.trim().is_empty() {
            return Ok(fail_on);
        }
        for word in text.split(',').map(str::trim) {
            match word {
                "hang" => fail_on.hang = true,
                "hazard" => fail_on.hazard = true,
                "prevented" => fail_on.prevented = true,
                "unguarded" => fail_on.unguarded = true,
                "retried" => fail_on.retried = true,
                "late-load" => drop(fail_on.codes.insert(Code::LG110)),
                "" => return Err(format!("a part of it is empty; {EXPECTED}")),
                word => drop(fail_on.codes.insert(hazard_code(word.strip_prefix("hazard:").unwrap_or(word))?)),
            }
        }
        Ok(fail_on)
    }
}

const EXPECTED: &str =
    "expected hang, hazard, late-load, prevented, unguarded, retried, or codes such as LG101 or hazard:LG101, with commas between them";

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
        let is_set = [self.hang, self.hazard, self.prevented, self.unguarded, self.retried];
        let words = ["hang", "hazard", "prevented", "unguarded", "retried"].into_iter().zip(is_set);
        let words = words.filter(|(_, is_set)| *is_set).map(|(word, _)| word);
        f.write_str(&words.chain(self.codes.iter().map(|code| code.name())).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::test_samples::hazard;

    #[test]
    fn every_form_of_it_is_read_and_written_again() {
        for (text, written) in [
            ("hang", "hang"),
            ("hang,hazard:LG101,LG104", "hang,LG101,LG104"),
            (" prevented , hazard", "hazard,prevented"),
            ("unguarded,hang", "hang,unguarded"),
            ("retried,unguarded", "unguarded,retried"),
            ("lg104,hazard:lg101", "LG101,LG104"),
            ("late-load", "LG110"),
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
            ("hangs", "\"hangs\" is nothing that can be found; expected hang, hazard"),
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
        }
    }
}
