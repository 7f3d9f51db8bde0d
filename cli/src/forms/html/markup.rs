//! The text of a page: every tag is closed, and all foreign text is escaped. Tags and the names of attributes are `&'static str`; all else passes
//! [`Escaped`], and controls and marks of direction are written out.
//!
//! Must not: offer a way past that for text that is not compiled into this command.

use lazyguard_core::api::counted;
use lazyguard_core::report::misleads;
use std::fmt::{self, Display, Write};

#[derive(Default)]
pub(super) struct Markup {
    text: String,
    open: Vec<&'static str>,
}

pub(super) type Attribute<'a> = (&'static str, &'a dyn Display);

pub(super) const FACT: &str = r#"p class="fact""#;
pub(super) const FACT_IN_PICTURE: &str = r#"text class="fact""#;
pub(super) const PROBLEM: &str = r#"p class="problem""#;

pub(super) const MOST_LETTERS: usize = 2000;

// Hundreds of calls: one function for all types keeps the command small.
impl Markup {
    /// Opens an element. Attributes that never change may stand in the tag, behind its name.
    #[inline(never)]
    pub fn open(&mut self, tag: &'static str, attributes: &[Attribute<'_>]) -> &mut Self {
        self.tag(tag, attributes);
        self.text.push('>');
        self.open.push(tag.split(' ').next().unwrap_or(tag));
        self
    }

    #[inline(never)]
    pub fn close(&mut self) -> &mut Self {
        if let Some(tag) = self.open.pop() {
            self.text.push_str("</");
            self.text.push_str(tag);
            self.text.push_str(">\n");
        }
        self
    }

    pub fn close_all(&mut self, count: usize) -> &mut Self {
        for _ in 0..count {
            self.close();
        }
        self
    }

    /// An element that holds nothing, in HTML (`meta`) as in SVG (`rect`).
    #[inline(never)]
    pub fn empty(&mut self, tag: &'static str, attributes: &[Attribute<'_>]) -> &mut Self {
        self.tag(tag, attributes);
        self.text.push_str("/>");
        self
    }

    #[inline(never)]
    pub fn element(&mut self, tag: &'static str, attributes: &[Attribute<'_>], text: &dyn Display) -> &mut Self {
        self.open(tag, attributes).text(text).close()
    }

    pub fn say(&mut self, tag: &'static str, text: impl Display) -> &mut Self {
        self.element(tag, &[], &text)
    }

    pub fn line(&mut self, tag: &'static str, text: &str) {
        self.say(tag, short(text, MOST_LETTERS));
    }

    pub fn left_out(&mut self, count: usize, most: usize, noun: &str) {
        if count > most {
            self.line(FACT, &format!("and {}", counted((count - most) as u64, noun)));
        }
    }

    #[inline(never)]
    pub fn text(&mut self, text: impl Display) -> &mut Self {
        let _ = write!(Escaped(&mut self.text), "{text}");
        self
    }

    /// Opens a part of the page that scrolls by itself where it is too wide, and a picture in it with the title that stands for it.
    pub fn picture(
        &mut self,
        label: &'static str,
        class: &'static str,
        (wide, high): (i64, i64),
        id: &str,
    ) -> &mut Self {
        let attributes: [Attribute<'_>; 3] =
            [("class", &class), ("viewBox", &format!("0 0 {wide} {high}")), ("aria-labelledby", &id)];
        self.scroll(label).open(r#"svg role="img""#, &attributes)
    }

    pub fn scroll(&mut self, label: &'static str) -> &mut Self {
        self.open(r#"div class="scroll" tabindex="0" role="group""#, &[("aria-label", &label)])
    }

    pub fn key(&mut self, class: &'static str, (top, high): (i64, i64)) -> &mut Self {
        self.open("li", &[]).open(r#"svg viewBox="0 0 24 24" aria-hidden="true""#, &[]);
        self.rect(class, [&0, &top, &24, &high])
    }

    pub fn tip(&mut self, id: &str) -> &mut Self {
        let tag = r#"marker viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto""#;
        self.open("defs", &[]).open(tag, &[("id", &id)]);
        self.empty(r#"path d="M0 0L10 5L0 10z" class="tip""#, &[]).close_all(2)
    }

    pub fn rect(&mut self, class: &'static str, [x, y, width, height]: [&dyn Display; 4]) -> &mut Self {
        self.empty("rect", &[("class", &class), ("x", x), ("y", y), ("width", width), ("height", height)])
    }

    pub fn at(&mut self, tag: &'static str, (x, y): (impl Display, i64), text: impl Display) -> &mut Self {
        self.element(tag, &[("x", &x), ("y", &y)], &text)
    }

    pub fn table(&mut self, label: &'static str, tag: &'static str, caption: impl Display, columns: &[&str]) {
        self.scroll(label).open(tag, &[]).say("caption", caption).open("thead", &[]).open("tr", &[]);
        for column in columns {
            self.element(r#"th scope="col""#, &[], column);
        }
        self.close_all(2).open("tbody", &[]);
    }

    pub fn row(&mut self, cells: &[&dyn Display]) -> &mut Self {
        self.open("tr", &[]);
        for cell in cells {
            self.element("td", &[], cell);
        }
        self.close()
    }

    pub fn own(&mut self, text: &'static str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    pub fn newline(&mut self) -> &mut Self {
        self.own("\n")
    }

    /// The whole text; what is still open is closed.
    pub fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.text
    }

    fn tag(&mut self, tag: &'static str, attributes: &[Attribute<'_>]) {
        self.text.push('<');
        self.text.push_str(tag);
        for (name, value) in attributes {
            self.text.push(' ');
            self.text.push_str(name);
            self.text.push_str("=\"");
            let _ = write!(Escaped(&mut self.text), "{value}");
            self.text.push('"');
        }
    }
}

/// Takes any text and writes it escaped, for element content as well as for attribute values in quotes.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            self.write_char(letter)?;
        }
        Ok(())
    }

    fn write_char(&mut self, letter: char) -> fmt::Result {
        match letter {
            '&' => self.0.push_str("&amp;"),
            '<' => self.0.push_str("&lt;"),
            '>' => self.0.push_str("&gt;"),
            '"' => self.0.push_str("&quot;"),
            '\'' => self.0.push_str("&#39;"),
            '\n' => self.0.push_str("\\n"),
            '\r' => self.0.push_str("\\r"),
            '\t' => self.0.push_str("\\t"),
            letter if letter < '\u{80}' && letter.is_control() => write!(self.0, "\\x{:02x}", letter as u32)?,
            letter if misleads(letter) || is_no_character(letter) => write!(self.0, "\\u{{{:x}}}", letter as u32)?,
            letter => self.0.push(letter),
        }
        Ok(())
    }
}

/// Code points that Unicode keeps free of characters; they are errors in HTML.
fn is_no_character(letter: char) -> bool {
    let code = letter as u32;
    code & 0xfffe == 0xfffe || (0xfdd0..=0xfdef).contains(&code)
}

/// At most so many characters of a text, with an ellipsis for the rest.
pub(super) fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['\u{2026}']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_can_leave_the_text_that_it_is_in() {
        let mut content = String::new();
        for letter in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
            content.clear();
            Escaped(&mut content).write_char(letter).unwrap();
            if letter.is_ascii_alphanumeric() || letter == ' ' {
                assert_eq!(content.chars().collect::<Vec<_>>(), [letter]);
                continue;
            }
            assert!(!content.contains(['<', '>', '"', '\'', '\n', '\r', '\t', '\0']), "{letter:?} {content:?}");
            assert!(!content.contains(|c: char| c.is_control() || misleads(c)), "{letter:?}");
            let entity = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"].contains(&content.as_str());
            assert_eq!(content.contains('&'), entity, "{letter:?}");
            assert!(!letter.is_alphanumeric() || content.chars().eq([letter]), "{letter:?} is changed");
        }
    }

    #[test]
    fn what_is_open_is_closed_and_names_stay_text() {
        let mut page = Markup::default();
        page.open("main", &[]).open("p", &[("id", &"a\" onclick=\"x")]).text("</p><script>alert(1)</script>&amp;");
        assert_eq!(
            page.finish(),
            "<main><p id=\"a&quot; onclick=&quot;x\">&lt;/p&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;</p>\n</main>\n"
        );
        assert_eq!(
            (short("abc", 3), short("abcd", 3), short("\u{e9}\u{e9}\u{e9}", 2)),
            ("abc".into(), "ab\u{2026}".into(), "\u{e9}\u{2026}".into())
        );
    }
}
