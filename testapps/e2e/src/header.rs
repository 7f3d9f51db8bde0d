//! The first lines of a corpus program: what it does, and the expected result. No other file states that.
//!
//! ```text
//! // What it does and why it hangs, or why it does not, in as many lines as that takes.
//! // expect: LG204 culprit=spin_until innocent=busy_for
//! // env: LAZYGUARD_PRELOAD=off
//! // default: completes
//! // card: yes
//! ```
//!
//! A program of hazards states its hazards instead, one a line:
//!
//! ```text
//! // hazard: LG101 call=cuLaunchKernel kernel=step stream=non-blocking
//! // prevented: LG101 call=cuLaunchKernel kernel=step stream=non-blocking
//! ```
//!
//! | line | |
//! |---|---|
//! | `expect` | of a program that hangs: the code, the first culprit (a kernel's name, or the call that submitted what does not end), and what no verdict may blame. Of one that does not: `slow` when the guard must report that, `none` when it must report nothing, `slow or none` |
//! | `hazard` | of a program that completes and has hazards: one of them, with the driver call, the kernel and the class of stream it is about (`-` and `none` where it is about none); `confidence=possible` where its recording proves no wait, and the lines before say why. `none` where there must be none |
//! | `prevented` | one that would have arisen without the guard |
//! | `env` | the settings with which it hangs under the guard, or with which the hazards arise |
//! | `default` | what it does under the guard without them: `completes`, or the code that the guard reports |
//! | `told` | where the diagnosis is known to be wrong, what it reports instead: the code, or `nothing`. The lines before say why |
//! | `card` | whether it does the same on a card: `yes`; `yes, alone` when it needs the card for itself; `no, because ...` |
//!
//! Must not: need anything but the standard library.

/// What is expected of a program of the corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// It hangs.
    Hang {
        /// The code of the first verdict.
        code: String,
        /// The function, or else the call, of its first culprit.
        culprit: String,
        /// What must not be among the culprits of any verdict.
        innocent: Option<String>,
    },
    /// It ends by itself.
    Ends {
        /// It may be called slow.
        may_be_slow: bool,
        /// It may be left without a word.
        may_be_silent: bool,
    },
    /// It ends by itself at once, and the guard reports exactly these hazards.
    Hazards {
        /// Those that arise.
        arisen: Vec<Group>,
        /// Those that the guard prevented.
        prevented: Vec<Group>,
    },
}

/// A hazard as it is counted: what distinguishes it from others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// The code.
    pub code: String,
    /// The kernel, or `-`.
    pub kernel: String,
    /// The driver call.
    pub call: String,
    /// The class of stream.
    pub stream: String,
    /// Nothing says that the work in flight waits.
    pub is_possible: bool,
}

/// The first lines of a program of the corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it does.
    pub what: String,
    /// What is expected.
    pub expect: Expect,
    /// What is set.
    pub env: Vec<(String, String)>,
    /// What happens without `env`: `completes` or a code.
    pub default: Option<String>,
    /// What the diagnosis is known to say instead of what is expected: a code, or `nothing`.
    pub told: Option<String>,
    /// Whether it hangs because of what a profile has the next run do before, and completes there.
    pub completes_with_profile: bool,
    /// `none, WHY`, if `lazyguard export --to cuda` makes no program of its hang.
    pub reproducer: Option<String>,
    /// Whether it is for a card.
    pub card: String,
}

impl Header {
    /// Reads the first lines; says what is wrong with them.
    pub fn of(source: &str) -> Result<Self, String> {
        let lines: Vec<_> = source.lines().map_while(|line| line.strip_prefix("// ")).collect();
        let one = |key: &str| {
            let found: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix(key)).map(str::trim).collect();
            match found[..] {
                [] => Ok(None),
                [value] if !value.is_empty() => Ok(Some(value)),
                _ => Err(format!("one line {key:?} with something in it was expected")),
            }
        };
        let groups = |key: &str| {
            lines.iter().filter_map(|line| line.strip_prefix(key)).map(group).collect::<Result<Vec<_>, _>>()
        };
        let is_keyed = |line: &&str| {
            [
                "expect:",
                "hazard:",
                "prevented:",
                "env:",
                "default:",
                "told:",
                "with-profile:",
                "reproducer:",
                "card:",
                "build:",
            ]
            .iter()
            .any(|key| line.starts_with(key))
        };
        let what = lines.iter().take_while(|line| !is_keyed(line)).copied().collect::<Vec<_>>().join(" ");
        if !what.ends_with('.') {
            return Err("the first lines do not say in sentences what the program does".to_owned());
        }
        let header = Self {
            what,
            expect: match (one("expect:")?, lines.iter().any(|line| line.starts_with("hazard:"))) {
                (Some(text), false) => expectation(text)?,
                (None, true) => hazards(groups("hazard:")?, groups("prevented:")?)?,
                _ => return Err("there is a line \"expect:\", or there are lines \"hazard:\"".to_owned()),
            },
            env: settings(one("env:")?.unwrap_or_default())?,
            default: one("default:")?.map(str::to_owned),
            told: one("told:")?.map(str::to_owned),
            completes_with_profile: match one("with-profile:")? {
                None => false,
                Some("completes") => true,
                Some(other) => return Err(format!("with-profile: {other:?} is not completes")),
            },
            reproducer: one("reproducer:")?.map(str::to_owned),
            card: one("card:")?.ok_or("there is no line \"card:\"")?.to_owned(),
        };
        header.fits_together()
    }

    fn fits_together(self) -> Result<Self, String> {
        let hangs = matches!(self.expect, Expect::Hang { .. });
        let default_is_known = self.default.as_deref().is_none_or(|default| default == "completes" || is_code(default));
        if !default_is_known || self.default.is_some() != (hangs && !self.env.is_empty()) {
            return Err(
                "\"default:\" says \"completes\" or a code, where a program that hangs has an \"env:\"".to_owned()
            );
        }
        if self.completes_with_profile && !(hangs && self.env.is_empty()) {
            return Err("\"with-profile:\" is for a program that hangs and has no \"env:\"".to_owned());
        }
        if !self.told.as_deref().is_none_or(|told| told == "nothing" || is_code(told)) {
            return Err("\"told:\" says a code, or \"nothing\"".to_owned());
        }
        if self.told.is_some() && matches!(self.expect, Expect::Hazards { .. }) {
            return Err("\"told:\" is for what is said of hangs".to_owned());
        }
        if !["yes", "yes, alone"].contains(&&*self.card) && !self.card.starts_with("no, because ") {
            return Err(format!("card: {:?} is neither yes, nor \"yes, alone\", nor a \"no, because ...\"", self.card));
        }
        Ok(self)
    }
}

fn is_code(text: &str) -> bool {
    text.strip_prefix("LG2").is_some_and(|rest| rest.len() == 2 && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

fn expectation(text: &str) -> Result<Expect, String> {
    let ends = |may_be_slow, may_be_silent| Ok(Expect::Ends { may_be_slow, may_be_silent });
    match text {
        "slow" => return ends(true, false),
        "none" => return ends(false, true),
        "slow or none" => return ends(true, true),
        _ => {}
    }
    let mut words = text.split_whitespace();
    let code = words.next().filter(|word| is_code(word)).ok_or(format!("expect: {text:?} begins with no code"))?;
    let mut named = settings(&words.collect::<Vec<_>>().join(" "))?;
    let mut take = |name| named.iter().position(|(known, _)| known == name).map(|at| named.remove(at).1);
    let (culprit, innocent) = (take("culprit"), take("innocent"));
    match culprit {
        Some(culprit) if named.is_empty() => Ok(Expect::Hang { code: code.to_owned(), culprit, innocent }),
        _ => Err(format!("expect: {text:?} is not CODE culprit=NAME [innocent=NAME]")),
    }
}

/// What a line says; nothing where it says that there are none.
fn group(text: &str) -> Result<Option<Group>, String> {
    let mut words = text.split_whitespace();
    let code = words.next().unwrap_or_default().to_owned();
    let mut named = settings(&words.collect::<Vec<_>>().join(" "))?;
    if code == "none" && named.is_empty() {
        return Ok(None);
    }
    let mut take = |name| named.iter().position(|(known, _)| known == name).map(|at| named.remove(at).1);
    let confidence = take("confidence");
    let is_possible = confidence.is_some();
    match (take("kernel"), take("call"), take("stream")) {
        (Some(kernel), Some(call), Some(stream))
            if named.is_empty() && code.starts_with("LG1") && confidence.is_none_or(|word| word == "possible") =>
        {
            Ok(Some(Group { code, kernel, call, stream, is_possible }))
        }
        _ => Err(format!("{text:?} is neither none nor CODE call=NAME kernel=NAME stream=CLASS [confidence=possible]")),
    }
}

fn hazards(arisen: Vec<Option<Group>>, prevented: Vec<Option<Group>>) -> Result<Expect, String> {
    let none_among_others = |groups: &[Option<Group>]| groups.len() > 1 && groups.contains(&None);
    if none_among_others(&arisen) || prevented.contains(&None) {
        return Err("\"hazard: none\" stands alone, and no line \"prevented:\" says none".to_owned());
    }
    let known = |groups: Vec<_>| groups.into_iter().flatten().collect();
    Ok(Expect::Hazards { arisen: known(arisen), prevented: known(prevented) })
}

fn settings(text: &str) -> Result<Vec<(String, String)>, String> {
    let pair = |word: &str| {
        let (name, value) = word.split_once('=').ok_or(format!("{word:?} is not NAME=VALUE"))?;
        Ok((name.to_owned(), value.to_owned()))
    };
    text.split_whitespace().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HAZARD: &str =
        "// Completes.\n// hazard: LG101 call=cuLaunchKernel kernel=step stream=blocking\n// card: yes\n";

    #[test]
    fn hazards_are_read_line_by_line() {
        let group = |code: &str| Group {
            code: code.to_owned(),
            kernel: "step".to_owned(),
            call: "cuLaunchKernel".to_owned(),
            stream: "blocking".to_owned(),
            is_possible: false,
        };
        let expect = |source: &str| Header::of(source).unwrap().expect;
        assert_eq!(expect(HAZARD), Expect::Hazards { arisen: vec![group("LG101")], prevented: Vec::new() });
        let prevented = "// hazard: none\n// prevented: LG102 stream=blocking kernel=step call=cuLaunchKernel\n";
        let prevented = format!("// Completes.\n{prevented}// card: yes\n");
        assert_eq!(expect(&prevented), Expect::Hazards { arisen: Vec::new(), prevented: vec![group("LG102")] });
    }

    #[test]
    fn what_is_half_said_of_a_hazard_is_refused() {
        assert!(Header::of(HAZARD).is_ok());
        for (from, to) in [
            ("LG101", "LG201"),
            (" kernel=step", ""),
            ("stream=blocking", "stream=blocking culprit=step"),
            ("// card", "// expect: none\n// card"),
            ("// card", "// hazard: none\n// card"),
            ("// card", "// told: LG201\n// card"),
            ("// card", "// with-profile: completes\n// card"),
            ("// hazard", "// prevented"),
        ] {
            assert!(Header::of(&HAZARD.replace(from, to)).is_err(), "{to:?} in the place of {from:?}");
        }
    }
}
