//! The evidence of a process, with pseudonyms for paths, hosts, names, lines and processes. Class and movement stay.
//!
//! Must not: keep a text that [`Evidence::names`] has, or a sentence in which a path or a name is left.

use super::pseudonyms::Pseudonyms;
use crate::evidence::{Evidence, PythonFrame};

/// A copy of the evidence.
pub fn evidence(seen: &Evidence, pseudonyms: &mut Pseudonyms) -> Evidence {
    let Evidence { process, class, moves, sentence, of_job, peer, python, lacks: _, names } = seen;
    let told = in_pseudonyms(sentence, names, pseudonyms);
    let is_whole = !told.contains(['/', '"', '`']);
    let mut frame = |frame: &PythonFrame| PythonFrame {
        file: pseudonyms.of("file", &frame.file),
        line: 0,
        function: pseudonyms.of("function", &frame.function),
    };
    Evidence {
        process: *process,
        class: *class,
        moves: *moves,
        of_job: *of_job,
        peer: *peer,
        python: python.iter().map(&mut frame).collect(),
        sentence: if is_whole { told } else { class.name().to_owned() },
        lacks: Vec::new(),
        names: Vec::new(),
    }
}

/// Each name as a whole word, the longest first, and the number behind `process` and `thread`.
fn in_pseudonyms(sentence: &str, names: &[String], pseudonyms: &mut Pseudonyms) -> String {
    let is_of_a_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut told = String::new();
    let mut rest = sentence;
    while let Some(letter) = rest.chars().next() {
        let begins = !told.ends_with(is_of_a_word);
        let number = ["process ", "thread "].iter().find_map(|what| {
            let digits = rest.strip_prefix(what)?;
            let count = digits.bytes().take_while(u8::is_ascii_digit).count();
            (count > 0).then(|| (*what, &digits[..count]))
        });
        if let Some((what, digits)) = number.filter(|_| begins) {
            let known = pseudonyms.of(if what == "process " { "process" } else { "thread" }, digits);
            told.push_str(&known);
            rest = &rest[what.len() + digits.len()..];
            continue;
        }
        let is_it = |name: &&String| {
            let behind = rest.strip_prefix(name.as_str());
            !name.is_empty() && behind.is_some_and(|behind| !behind.starts_with(is_of_a_word))
        };
        let name = names.iter().filter(is_it).max_by_key(|name| name.len()).filter(|_| begins);
        match name {
            Some(name) => {
                told.push_str(&pseudonyms.of("name", name));
                rest = &rest[name.len()..];
            }
            None => {
                // Thread names stand in quotes, and have pseudonyms like the rest.
                told.extend((!matches!(letter, '"' | '`')).then_some(letter));
                rest = &rest[letter.len_utf8()..];
            }
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Class;

    #[test]
    fn class_and_movement_stay_and_no_name_does() {
        let names = ["/data/shard-17.tar", "server:/data", "data.py:25", "read", "ann", "train.py:31", "main"];
        let sentence = "waits for its child ann (process 812), which reads /data/shard-17.tar (nfs4 from server:/data) (data.py:25 in read) (train.py:31 in main)";
        let python = vec![PythonFrame { file: "/home/ann/train.py".to_owned(), line: 31, function: "main".to_owned() }];
        let seen = Evidence {
            process: 7,
            class: Class::Child,
            moves: true,
            of_job: true,
            peer: Some(812),
            sentence: sentence.to_owned(),
            python,
            lacks: Vec::new(),
            names: names.map(str::to_owned).to_vec(),
        };
        let copy = evidence(&seen, &mut Pseudonyms::default());
        let told = "waits for its child name 1 (process 1), which reads name 2 (nfs4 from name 3) (name 4 in name 5) (name 6 in name 7)";
        assert_eq!((copy.sentence.as_str(), copy.class, copy.moves), (told, Class::Child, true));
        assert_eq!((copy.python[0].file.as_str(), copy.python[0].line, copy.names.len()), ("file 1", 0, 0));
        let leaks = Evidence { names: Vec::new(), ..seen };
        assert_eq!(evidence(&leaks, &mut Pseudonyms::default()).sentence, "child", "a name that is not listed");
    }
}
