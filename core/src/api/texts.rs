//! Constant texts in one piece. A table of `&'static str` has a pointer for each text, which the dynamic linker writes in every process. A
//! table of [`Span`]s has none.

/// Where a text lies in the long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    at: u16,
    length: u8,
}

impl Span {
    /// Empty where `all` has no such place: hooks ask for names outside the door, so it must not panic.
    pub const fn of(self, all: &'static str) -> &'static str {
        let Some((_, from)) = all.split_at_checked(self.at as usize) else { return "" };
        let Some((text, _)) = from.split_at_checked(self.length as usize) else { return "" };
        text
    }

    pub const fn first(self, length: usize) -> Self {
        assert!(length <= self.length as usize);
        Self { at: self.at, length: length as u8 }
    }

    pub const fn next(self, length: usize) -> Self {
        let at = self.at as usize + self.length as usize;
        assert!(at + length <= u16::MAX as usize && length <= u8::MAX as usize);
        Self { at: at as u16, length: length as u8 }
    }

    pub const NONE: Self = Self { at: 0, length: 0 };
}

pub(super) const fn length_of(texts: &[&str]) -> usize {
    let (mut length, mut index) = (0, 0);
    while index < texts.len() {
        length += texts[index].len();
        index += 1;
    }
    length
}

pub(super) const fn joined<const BYTES: usize>(texts: &[&str]) -> [u8; BYTES] {
    let mut all = [0; BYTES];
    let (mut at, mut index) = (0, 0);
    while index < texts.len() {
        let text = texts[index].as_bytes();
        let mut byte = 0;
        while byte < text.len() {
            all[at] = text[byte];
            at += 1;
            byte += 1;
        }
        index += 1;
    }
    assert!(at == BYTES);
    all
}

pub(super) const fn text(bytes: &'static [u8]) -> &'static str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("texts, joined, are a text"),
    }
}
