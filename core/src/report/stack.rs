//! The stack of a blocked thread, as a report has it.

use crate::demangle::demangle;
use serde::{Deserialize, Serialize};

/// Frames without a name that are listed; the JSON form has them all.
const MOST_NAMELESS: usize = 12;

/// The stack of a thread that is blocked in a driver call, from the caller of the driver outwards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackSeen {
    /// The thread's id.
    pub thread: u32,
    /// The frames, the innermost first.
    pub frames: Vec<FrameSeen>,
    /// What there is to say about them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A frame; where functions were put in place of their calls, several have one address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameSeen {
    /// Where it goes on: a return address.
    pub address: u64,
    /// The name of the file in which that lies, or nothing.
    pub module: String,
    /// The address in that file, as `addr2line` wants it.
    pub offset: u64,
    /// The function, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The source file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Whether it was put in place of a call in the next frame.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inlined: bool,
}

impl StackSeen {
    /// A line each frame, and each note. Where no frame has a name, the outer ones are only counted.
    pub fn lines(&self) -> Vec<String> {
        let has_names = self.frames.iter().any(|frame| frame.function.is_some());
        let most = if has_names || self.frames.len() == MOST_NAMELESS + 1 { usize::MAX } else { MOST_NAMELESS };
        let frames = self.frames.iter().take(most).map(|frame| format!("    at {}", frame.text()));
        let rest = self.frames.len().saturating_sub(most);
        let rest = (rest > 0).then(|| format!("    and {rest} more frames"));
        frames.chain(rest).chain(self.notes.iter().map(|note| format!("    ({note})"))).collect()
    }
}

impl FrameSeen {
    /// The function and its line, and where that is; as much of it as is known.
    pub fn text(&self) -> String {
        let place = if self.module.is_empty() {
            format!("{:#x}", self.address)
        } else {
            format!("{}+{:#x}", self.module, self.offset)
        };
        let line = match (&self.file, self.line) {
            (Some(file), Some(line)) => Some(format!("{file}:{line}")),
            (Some(file), None) => Some(file.clone()),
            _ => None,
        };
        let function = self.function.as_deref().map(demangle);
        match (function.into_iter().chain(line).reduce(|function, line| function + ", " + &line), self.inlined) {
            (None, _) => place,
            (Some(known), true) => format!("{known} (inlined)"),
            (Some(known), false) => format!("{known} ({place})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_says_what_is_known_of_it() {
        let bare =
            FrameSeen { address: 0x7f01, module: "libfoo.so".to_owned(), offset: 0x1234, ..FrameSeen::default() };
        let named = FrameSeen { function: Some("_Z2k1v".to_owned()), ..bare.clone() };
        let whole = FrameSeen { file: Some("k.cpp".to_owned()), line: Some(7), ..named.clone() };
        let inlined = FrameSeen { inlined: true, ..whole.clone() };
        let nowhere = FrameSeen { module: String::new(), ..bare.clone() };
        let notes = vec!["no more".to_owned()];
        let stack = StackSeen { thread: 1, frames: vec![bare, named, whole, inlined, nowhere], notes };
        assert_eq!(
            stack.lines(),
            [
                "    at libfoo.so+0x1234",
                "    at k1 (libfoo.so+0x1234)",
                "    at k1, k.cpp:7 (libfoo.so+0x1234)",
                "    at k1, k.cpp:7 (inlined)",
                "    at 0x7f01",
                "    (no more)",
            ]
        );
        let nameless = |count| StackSeen { frames: vec![stack.frames[0].clone(); count], ..StackSeen::default() };
        assert_eq!(nameless(13).lines().len(), 13);
        assert_eq!(nameless(40).lines().last().unwrap(), "    and 28 more frames");
        let text = serde_json::to_string(&stack).unwrap();
        assert!(text.contains(r#"{"address":32513,"module":"libfoo.so","offset":4660}"#), "{text}");
        assert_eq!(serde_json::from_str::<StackSeen>(&text).unwrap(), stack);
    }
}
