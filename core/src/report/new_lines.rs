//! The lines of a report that its reader has not seen: a wait that was slow is called a hang, and a run ends after its hang was reported.
//!
//! A stack is one fact. In a list of calls or streams each line is one.

/// The lines of which `known` has not the fact, and the headings of lists and stacks that keep a line.
pub fn new_lines(lines: &[String], known: &[String]) -> Vec<String> {
    let known: Vec<String> = known.iter().map(|line| fact(line)).collect();
    let is_new = |line: &&String| !known.contains(&fact(line));
    let mut new = Vec::new();
    let mut at = 0;
    while let Some(heading) = lines.get(at) {
        let inner = lines[at + 1..].iter().take_while(|line| line.starts_with(' ')).count();
        let inside = &lines[at + 1..=at + inner];
        at += 1 + inner;
        let told: Vec<&String> = inside.iter().filter(is_new).collect();
        let is_stack = heading.starts_with("stack of ");
        if is_new(&heading) || heading.ends_with(':') && !told.is_empty() {
            new.push(heading.clone());
        }
        match is_stack && !told.is_empty() {
            true => new.extend(inside.iter().cloned()),
            false => new.extend(told.into_iter().cloned()),
        }
    }
    new
}

/// A blocked call without the time that it has lasted, and a poll without its number: `for 0.9 s since +0.034 s`.
fn fact(line: &str) -> String {
    let Some((before, since)) = line.split_once(" since ") else { return line.to_owned() };
    let Some((call, _)) = before.rsplit_once(" for ") else { return line.to_owned() };
    let is_number = |part: &str| part.ends_with(" time") || part.ends_with(" times");
    let call = call.rsplit_once(", ").filter(|(_, times)| is_number(times)).map_or(call, |(call, _)| call);
    format!("{call} since {since}")
}

#[cfg(test)]
mod tests {
    use super::new_lines;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_list_keeps_its_new_lines_and_a_stack_is_whole() {
        let slow = lines(
            "SLOW pid 7 (app): blocked 0.9 s in cuStreamSynchronize\nwaits for k1\nblocked calls:\n  thread 7 in \
             cuStreamSynchronize on stream 1 for 0.9 s since +0.034 s\n  thread 9 polls cuEventQuery, 96 times for 0.9 s since +0.1 s\n\
             busy streams:\n  stream 1: k1 since +0.034 s\ndetails: here\nstack of thread 7:\n    at f\n    at main\n\
             stack of thread 9:\n    at g\n    at main",
        );
        let hang = lines(
            "HANG pid 7 (app): blocked 3.4 s in cuStreamSynchronize\nLG299 (possible): it waits\n  fix: find out why\nblocked calls:\n  \
             thread 7 in cuStreamSynchronize on stream 1 for 3.4 s since +0.034 s\n  thread 9 polls cuEventQuery, 301 times for 3.4 s since +0.1 s\n\
             busy streams:\n  stream 1: k1 since +0.034 s\n  stream 2: k2 since +0.5 s\ndetails: here\nstack of thread 7:\n    at f\n    at main\n\
             stack of thread 9:\n    at h\n    at main",
        );
        let expect = lines(
            "HANG pid 7 (app): blocked 3.4 s in cuStreamSynchronize\nLG299 (possible): it waits\n  fix: find out why\n\
             busy streams:\n  stream 2: k2 since +0.5 s\nstack of thread 9:\n    at h\n    at main",
        );
        assert_eq!(new_lines(&hang, &slow), expect);
        assert_eq!(new_lines(&hang, &hang), Vec::<String>::new());
        assert_eq!(new_lines(&hang, &[]), hang);
    }
}
