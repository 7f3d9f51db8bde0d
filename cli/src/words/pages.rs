//! The pages of the codes, compiled in from `docs/HAZARDS.md`.

pub(crate) const PAGES: &str = include_str!("../../../docs/HAZARDS.md");

/// The paragraph of a page on what happened, in one line of plain text; `None` where there is none.
pub(crate) fn what_happened(code: &str) -> Option<String> {
    let (_, rest) = page(code)?.split_once("**What happened.**")?;
    Some(unmarked(&rest.split("\n\n").next()?.split_whitespace().collect::<Vec<_>>().join(" ")))
}

pub(crate) fn page(code: &str) -> Option<&'static str> {
    let start = PAGES.find(&format!("\n## {code}:"))? + 1;
    let rest = &PAGES[start..];
    let end = rest[3..].find("\n## ").map_or(rest.len(), |at| at + 3);
    Some(&rest[..end])
}

/// A line without the marks of code and emphasis; of a link its text, and where it leads if that is another page.
pub(crate) fn unmarked(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, link)) = rest.split_once('[') {
        text.push_str(before);
        match link.split_once("](").and_then(|(label, to)| Some((label, to.split_once(')')?))) {
            Some((label, (to, behind))) if !label.contains('[') => {
                text.push_str(label);
                if !to.starts_with('#') && !label.contains(to) {
                    text.push_str(&format!(" ({to})"));
                }
                rest = behind;
            }
            _ => {
                text.push('[');
                rest = link;
            }
        }
    }
    text.push_str(rest);
    text.replace("**", "").replace('`', "")
}
