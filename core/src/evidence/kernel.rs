//! The kernel's lines about a process: its state, descriptors, mounts and control groups.
//!
//! Must not: decide what they mean.

use super::source::{number, value, Source};

/// A line of `stat`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stat {
    pub name: String,
    pub state: char,
    pub parent: u32,
    /// Page faults that read from a disk or the network.
    pub faults: u64,
    /// Processor time, and when it began, in ticks.
    pub ticks: u64,
    pub started: u64,
    /// As `wait` gives it, of a process that has ended.
    pub exit: u32,
}

impl Stat {
    pub fn of(source: &Source, process: u32) -> Option<Self> {
        Self::read(&source.text(&format!("proc/{process}/stat"))?)
    }

    pub fn read(text: &str) -> Option<Self> {
        let (head, rest) = text.trim_end().rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse().ok()).unwrap_or(0_u64);
        Some(Self {
            name: head.split_once('(')?.1.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: number(1) as u32,
            faults: number(9),
            ticks: number(11).saturating_add(number(12)),
            started: number(19),
            exit: number(49) as u32,
        })
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub number: u64,
    pub link: String,
    /// Whether a pipe can be read from, and written to.
    pub reads: bool,
    pub writes: bool,
}

/// A mount: its number in `fdinfo`, its folder, type and source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mount {
    pub number: u64,
    pub at: String,
    pub kind: String,
    pub from: String,
}

/// The limits that a control group and those above it have put on a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    pub frozen: bool,
    /// The time for which its threads had to wait for the next period.
    pub throttled_nanos: u64,
    pub killed_for_memory: u64,
}

pub(super) fn flags(source: &Source, process: u32, descriptor: u64) -> Option<u32> {
    let about = source.text(&format!("proc/{process}/fdinfo/{descriptor}"))?;
    u32::from_str_radix(value(&about, "flags")?, 8).ok()
}

pub(super) fn mounts(source: &Source, process: u32) -> Vec<Mount> {
    let text = source.text(&format!("proc/{process}/mountinfo")).unwrap_or_default();
    let one = |line: &str| {
        // number parent device root folder options [fields...] - type source options
        let (head, tail) = line.split_once(" - ")?;
        let (mut head, mut tail) = (head.split(' '), tail.split(' '));
        let (number, at) = (head.next()?.parse().ok()?, unescaped(head.nth(3)?));
        Some(Mount { number, at, kind: tail.next()?.to_owned(), from: unescaped(tail.next()?) })
    };
    text.lines().filter_map(one).collect()
}

/// The kernel writes blanks, tabs, ends of lines and backslashes as three digits.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match digits {
            Some(letter) => whole.push(char::from(letter)),
            None => whole.push('\\'),
        }
        whole.push_str(if digits.is_some() { &part[3..] } else { part });
    }
    whole
}

/// From the control group of a process up: in a container its path may be one of the host's, which is not there.
pub(super) fn group(source: &Source, process: u32) -> Group {
    let mut found = Group::default();
    let text = source.text(&format!("proc/{process}/cgroup")).unwrap_or_default();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let has = |name: &str| controllers.split(',').any(|controller| controller == name);
        let bases: &[&str] = match () {
            () if controllers.is_empty() => &["sys/fs/cgroup", "sys/fs/cgroup/unified"],
            () if has("freezer") => &["sys/fs/cgroup/freezer"],
            () if has("cpu") => &["sys/fs/cgroup/cpu"],
            () if has("memory") => &["sys/fs/cgroup/memory"],
            () => continue,
        };
        for base in bases {
            let mut path = path.trim_end_matches('/');
            loop {
                add(source, &format!("{base}{path}"), &mut found);
                match path.rsplit_once('/') {
                    Some((above, _)) => path = above,
                    None => break,
                }
            }
        }
    }
    found
}

fn add(source: &Source, folder: &str, found: &mut Group) {
    let text = |name: &str| source.text(&format!("{folder}/{name}")).unwrap_or_default();
    let is_frozen = || number(&text("cgroup.events"), "frozen") == Some(1) || text("freezer.state").trim() == "FROZEN";
    found.frozen |= is_frozen();
    let cpu = text("cpu.stat");
    let throttled = number(&cpu, "throttled_usec").map(|micros| micros.saturating_mul(1000));
    let throttled = throttled.or_else(|| number(&cpu, "throttled_time")).unwrap_or(0);
    found.throttled_nanos = found.throttled_nanos.max(throttled);
    let killed = |name: &str| number(&text(name), "oom_kill").unwrap_or(0);
    found.killed_for_memory = found.killed_for_memory.max(killed("memory.events")).max(killed("memory.oom_control"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_brackets_and_blanks_in_it() {
        let fields = ["0"; 60].join(" ");
        let stat = Stat::read(&format!("7 (a (b) c) S 5 {fields}\n")).unwrap();
        assert_eq!((stat.name.as_str(), stat.state, stat.parent), ("a (b) c", 'S', 5));
        assert_eq!(Stat::read("7 (cut"), None);
    }

    #[test]
    fn a_mount_has_blanks_in_its_folder() {
        assert_eq!(unescaped("/my\\040data\\134x"), "/my data\\x");
        assert_eq!(unescaped("a\\9z"), "a\\9z");
    }
}
