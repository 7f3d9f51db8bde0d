//! A part of a profile as text, which a person can read and compare.
//!
//! ```text
//! lazyguard profile 3
//! image   5d41402abc4b2a76b9719d911017c592-4096   20770
//! load    2   0=32,9=90
//! kernel  spin(int*)
//! library 4a2b1d414d9b9119e2d1c0525d41402a-81920  3f8  20770  libdecode.so
//! kernel  _Z6decodePi
//! seen    0cc175b9c0f1b6a831c399e269772661-409600  20770  unused
//! fate    0cc175b9c0f1b6a831c399e269772661-409600  1794528000  bad
//! end     7   1f2e3d4c5b6a7988
//! ```
//!
//! Tabs separate the fields; days count from 1970. `image` names a file in the folder of images. `load` and `load-library` have the most loads in
//! one context, and the options or `-`. `library` has the identity of a fat binary's samples, the offset of its reference in hexadecimal digits,
//! the day, and the object, `-` for the program. `kernel` belongs to the image or library before it. `seen` is a library that the program loads
//! itself. `fate` has the time of the newest load that took long, in seconds from 1970; `bad` if it did not end, or went ahead unasked; `stood` if
//! it hung ahead. Neither is loaded ahead. Version 2 has no `stood`, version 1 no `fate`. `end` has the number and XXH3 of the lines before it: a part that was cut off, or has an unknown line, is not believed.

use super::{Course, Fate, ImageId, LoadOptions, Place, Profile, Seen, Uses};
use percent_encoding::{percent_decode_str, utf8_percent_encode, AsciiSet, CONTROLS};
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use twox_hash::XxHash3_64;

const FIRST: &str = "lazyguard profile 3";
const BEFORE: [&str; 2] = ["lazyguard profile 2", "lazyguard profile 1"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    Foreign,
    /// Its end is missing or wrong.
    CutOff,
    /// A meaningless line, counted from 1.
    Line(usize),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => write!(f, "its first line is not \"{FIRST}\""),
            Self::CutOff => f.write_str("it was cut off, or changed"),
            Self::Line(line) => write!(f, "line {line} means nothing"),
        }
    }
}

const PROGRAM: &str = "-";

/// Names are escaped as in a URL, where they would end a field or begin an escape.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

const LOAD: &str = "load";
const LOAD_LIBRARY: &str = "load-library";

const USED: &str = "used";
const UNUSED: &str = "unused";

const GOOD: &str = "good";
const BAD: &str = "bad";
const STOOD: &str = "stood";

enum Subject {
    Image(ImageId),
    Library(Place),
}

impl Profile {
    pub fn text(&self) -> String {
        let mut lines = String::new();
        let add_kernels = |lines: &mut String, kernels: &BTreeSet<String>| {
            for kernel in kernels {
                let _ = writeln!(lines, "kernel\t{}", utf8_percent_encode(kernel, ESCAPED));
            }
        };
        for (id, Uses { day, loads, kernels }) in &self.images {
            let _ = writeln!(lines, "image\t{id}\t{day}");
            for (options, most) in loads {
                let word = if options.is_library() { LOAD_LIBRARY } else { LOAD };
                let _ = writeln!(lines, "{word}\t{most}\t{options}");
            }
            add_kernels(&mut lines, kernels);
        }
        for (Place { object, offset, image }, Uses { day, kernels, .. }) in &self.libraries {
            let object = if object.is_empty() { PROGRAM } else { object };
            let _ = writeln!(lines, "library\t{image}\t{offset:x}\t{day}\t{}", utf8_percent_encode(object, ESCAPED));
            add_kernels(&mut lines, kernels);
        }
        for (id, Seen { day, is_used }) in &self.seen {
            let _ = writeln!(lines, "seen\t{id}\t{day}\t{}", if *is_used { USED } else { UNUSED });
        }
        for (id, Fate { at, course }) in &self.fates {
            let word = match course {
                Course::Good => GOOD,
                Course::Bad => BAD,
                Course::Stood => STOOD,
            };
            let _ = writeln!(lines, "fate\t{id}\t{at}\t{word}");
        }
        Self::part_of(&lines)
    }

    pub fn part_of(lines: &str) -> String {
        format!("{FIRST}\n{lines}{}", end_of(lines))
    }

    /// Whether another build may read it.
    pub fn is_of_another_version(part: &[u8]) -> bool {
        part.starts_with(FIRST.trim_end_matches('3').as_bytes()) && Self::parse(part) == Err(Damage::Foreign)
    }

    pub fn parse(part: &[u8]) -> Result<Self, Damage> {
        let after = |first: &str| part.strip_prefix(first.as_bytes())?.strip_prefix(b"\n");
        let text = after(FIRST).or_else(|| BEFORE.into_iter().find_map(after));
        let text = std::str::from_utf8(text.ok_or(Damage::Foreign)?).map_err(|_| Damage::CutOff)?;
        let end = text.strip_suffix('\n').map(|text| text.rfind('\n').map_or(0, |at| at + 1));
        let (lines, end) = text.split_at(end.ok_or(Damage::CutOff)?);
        if end != end_of(lines) {
            return Err(Damage::CutOff);
        }
        let mut profile = Self::default();
        let mut current = None;
        for (at, line) in lines.lines().enumerate() {
            profile.take_in(line, &mut current).ok_or(Damage::Line(at + 2))?;
        }
        Ok(profile)
    }

    fn take_in(&mut self, line: &str, current: &mut Option<Subject>) -> Option<()> {
        let fields: Vec<_> = line.split('\t').collect();
        match fields[..] {
            ["image", id, day] => {
                let id = id.parse().ok()?;
                let image = self.images.entry(id).or_default();
                image.day = image.day.max(day.parse().ok()?);
                *current = Some(Subject::Image(id));
            }
            ["library", image, offset, day, object] => {
                let object = if object == PROGRAM { String::new() } else { unescaped(object)? };
                let place = Place { object, offset: u64::from_str_radix(offset, 16).ok()?, image: image.parse().ok()? };
                let library = self.libraries.entry(place.clone()).or_default();
                library.day = library.day.max(day.parse().ok()?);
                *current = Some(Subject::Library(place));
            }
            ["seen", id, day, use_of_it @ (USED | UNUSED)] => {
                let seen = Seen { day: day.parse().ok()?, is_used: use_of_it == USED };
                self.seen.entry(id.parse().ok()?).or_default().merge(seen);
                *current = None;
            }
            ["fate", id, at, word] => {
                let course = match word {
                    GOOD => Course::Good,
                    BAD => Course::Bad,
                    STOOD => Course::Stood,
                    _ => return None,
                };
                self.fares(id.parse().ok()?, Fate { at: at.parse().ok()?, course });
                *current = None;
            }
            [word @ (LOAD | LOAD_LIBRARY), most, options] => {
                let Some(Subject::Image(id)) = current else { return None };
                let options = options_of(options)?;
                let options = if word == LOAD { options } else { options.of_library() };
                self.images.get_mut(id)?.loads.insert(options, most.parse().ok()?);
            }
            ["kernel", name] => {
                let kernels = match current.as_ref()? {
                    Subject::Image(id) => &mut self.images.get_mut(id)?.kernels,
                    Subject::Library(place) => &mut self.libraries.get_mut(place)?.kernels,
                };
                kernels.insert(unescaped(name)?);
            }
            _ => return None,
        }
        Some(())
    }
}

fn end_of(lines: &str) -> String {
    format!("end\t{}\t{:016x}\n", lines.lines().count(), XxHash3_64::oneshot(lines.as_bytes()))
}

fn options_of(text: &str) -> Option<LoadOptions> {
    if text == "-" {
        return Some(LoadOptions::default());
    }
    let parsed = |(option, value): (&str, &str)| Some((option.parse().ok()?, value.parse().ok()?));
    LoadOptions::new(text.split(',').map(|one| one.split_once('=').and_then(parsed)).collect::<Option<Vec<_>>>()?)
}

fn unescaped(text: &str) -> Option<String> {
    Some(percent_decode_str(text).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_version_before_is_read_and_one_to_come_is_not() {
        let [old, older] = BEFORE.map(|before| sample().text().replace(FIRST, before));
        assert_eq!(Profile::parse(old.as_bytes()), Ok(sample()));
        assert_eq!(Profile::parse(older.as_bytes()), Ok(sample()));
        let new = sample().text().replace(FIRST, "lazyguard profile 4");
        assert_eq!(Profile::parse(new.as_bytes()), Err(Damage::Foreign));
        assert!(Profile::is_of_another_version(new.as_bytes()));
        for part in [&old[..], &old[1..], &old[..60], ""] {
            assert!(!Profile::is_of_another_version(part.as_bytes()), "{part}");
        }
    }

    fn sample() -> Profile {
        let mut profile = Profile::default();
        let [one, two] = [ImageId::of(b"one"), ImageId::of(b"two")];
        profile.loaded(one, LoadOptions::new([(0, 32), (9, u64::MAX)]).unwrap(), 2, 20_770);
        profile.loaded(one, LoadOptions::default(), 1, 3);
        profile.loaded(one, LoadOptions::default().of_library(), 3, 3);
        profile.loaded(one, LoadOptions::new([(0, 32)]).unwrap().of_library(), 4, 3);
        profile.loaded(two, LoadOptions::default(), 7, 20_771);
        for kernel in ["spin(int*)", "a name\twith \"every\"\nthing \\ %41 in it \u{7f}\u{202e}", "größe", ""] {
            profile.used(one, kernel);
        }
        for (object, offset) in [("", 24), ("lib\tdecode.so", u64::MAX), ("lib\tdecode.so", 0)] {
            let place = Place { object: object.to_owned(), offset, image: two };
            profile.library_loaded(&place, 20_770);
            profile.library_used(&place, "_Z6decodePi");
        }
        profile.sees(one, false, 20_770);
        profile.sees(two, true, 3);
        profile
    }

    #[test]
    fn a_part_is_read_as_it_was_written() {
        for profile in [Profile::default(), sample()] {
            assert_eq!(Profile::parse(profile.text().as_bytes()), Ok(profile.clone()), "{}", profile.text());
        }
    }

    #[test]
    fn what_was_seen_is_a_line_for_a_person_and_two_lines_are_as_two_parts() {
        let id = ImageId::of(b"one");
        let mut profile = Profile::default();
        profile.sees(id, false, 20_770);
        assert_eq!(profile.text(), Profile::part_of(&format!("seen\t{id}\t20770\tunused\n")));
        let twice = Profile::part_of(&format!("seen\t{id}\t20770\tused\nseen\t{id}\t3\tunused\n"));
        profile.sees(id, true, 20_770);
        assert_eq!(Profile::parse(twice.as_bytes()), Ok(profile));
    }

    #[test]
    fn a_part_that_was_cut_off_or_changed_anywhere_is_not_believed() {
        let whole = sample().text();
        for end in 0..whole.len() {
            assert!(Profile::parse(&whole.as_bytes()[..end]).is_err(), "cut off at {end}");
        }
        // The number of a version before is no damage.
        for at in (0..whole.len()).filter(|at| at + 1 != FIRST.len()) {
            let mut changed = whole.clone().into_bytes();
            changed[at] ^= 1;
            assert!(Profile::parse(&changed).is_err(), "changed at {at}");
        }
        assert_eq!(Profile::parse(b"lazyguard profile 4\n"), Err(Damage::Foreign));
    }

    #[test]
    fn a_line_that_means_nothing_is_named() {
        let image = format!("image\t{}\t1\n", ImageId::of(b"x"));
        let library = format!("library\t{}\t18\t1\t-\n", ImageId::of(b"x"));
        let seen = format!("seen\t{}\t1\tunused\n", ImageId::of(b"x"));
        for lines in [
            "nonsense\n",
            "kernel\tk\n",
            "load\t1\t-\n",
            "load-library\t1\t-\n",
            "\n",
            &library.replace("18", "x"),
            &seen.replace("unused", "perhaps"),
            &seen.replace("\tunused", ""),
            &seen.replace("\t1\t", "\tx\t"),
            "seen\tx\t1\tused\n",
            &library.replace("\t-", ""),
        ] {
            assert_eq!(damage(lines), Damage::Line(2), "{lines:?}");
        }
        for line in
            ["load\t1\t3=5\n", "load\tx\t-\n", "load\t1\t0=32,\n", "kernel\ta\tb\n", "kernel\t%ff\n", "image\tx\t1\n"]
        {
            assert_eq!(damage(&format!("{image}{line}")), Damage::Line(3), "{line:?}");
        }
        assert_eq!(damage(&format!("{library}load\t1\t-\n")), Damage::Line(3), "a library is not loaded with options");
        assert_eq!(
            damage(&format!("{library}{seen}kernel\tk\n")),
            Damage::Line(4),
            "of what was seen no kernel is named"
        );
    }

    fn damage(lines: &str) -> Damage {
        Profile::parse(Profile::part_of(lines).as_bytes()).unwrap_err()
    }
}
