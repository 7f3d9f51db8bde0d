use super::*;
use crate::judge::test_samples::{seen, Told};
use std::collections::{BTreeMap, BTreeSet};

/// Elements and attributes that a page may have. A script, a style or a policy is there once.
const TAGS: [&str; 43] = [
    "html", "head", "meta", "title", "style", "body", "a", "header", "p", "nav", "ul", "ol", "li", "main", "section",
    "h1", "h2", "h3", "article", "details", "summary", "div", "svg", "defs", "marker", "path", "rect", "line", "text",
    "g", "table", "caption", "thead", "tbody", "tr", "th", "td", "pre", "code", "span", "button", "footer", "script",
];

fn page(told: &Told) -> String {
    let mut page = String::new();
    seen(told, |seen| page = text(seen));
    page
}

/// A page taken apart: its tags with their attributes, and the text between them. Panics where it is not well-formed.
struct Parsed {
    tags: Vec<(String, BTreeMap<String, String>)>,
    text: String,
}

fn unescaped(text: &str) -> String {
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    entities.iter().fold(text.to_owned(), |text, (entity, letter)| text.replace(entity, letter))
}

fn parse(page: &str) -> Parsed {
    let mut parsed = Parsed { tags: Vec::new(), text: String::new() };
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>\n").expect("a document type");
    while let Some((before, after)) = rest.split_once('<') {
        parsed.text.push_str(&unescaped(before));
        parsed.text.push('\n');
        let (tag, behind) = after.split_once('>').expect("the end of a tag");
        rest = behind;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{}", &before[before.len().saturating_sub(80)..]);
            continue;
        }
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, mut left) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(TAGS.contains(&name), "{name}");
        let mut attributes = BTreeMap::new();
        while let Some((key, value)) = left.split_once("=\"") {
            let (value, more) = value.split_once('"').expect("a value in quotes");
            assert!(attributes.insert(key.trim().to_owned(), unescaped(value)).is_none(), "{tag}");
            left = more;
        }
        assert_eq!(left.trim(), "", "{tag}");
        parsed.tags.push((name.to_owned(), attributes));
        if !is_empty {
            open.push(name);
        }
        // Their content is text up to their end, whatever is in it.
        if ["script", "style"].contains(&name) {
            let end = format!("</{name}>");
            rest = &rest[rest.find(&end).expect("its end")..];
        }
    }
    assert_eq!((open, rest.trim()), (Vec::new(), ""));
    parsed
}

fn well_formed(page: &str) -> Parsed {
    let parsed = parse(page);
    let mut ids = BTreeSet::new();
    let count = |tag: &str| parsed.tags.iter().filter(|(name, _)| name == tag).count();
    assert_eq!((count("script"), count("style"), count("h1"), count("main"), count("nav")), (1, 1, 1, 1, 1));
    for (name, attributes) in &parsed.tags {
        for (key, value) in attributes {
            assert!(
                !key.starts_with("on") && !["style", "src", "srcset", "action"].contains(&key.as_str()),
                "{name} {key}"
            );
            assert!(key != "href" || value.starts_with('#'), "{value}");
        }
        assert!(attributes.get("id").is_none_or(|id| ids.insert(id.clone())), "{attributes:?} twice");
        let has_words =
            name != "svg" || attributes.contains_key("aria-hidden") || attributes.contains_key("aria-labelledby");
        assert!(has_words, "a picture without words: {attributes:?}");
    }
    for (_, attributes) in &parsed.tags {
        let links = attributes.get("href").and_then(|link| link.strip_prefix('#')).map(str::to_owned);
        let named = ["aria-labelledby", "aria-describedby"].into_iter().filter_map(|key| attributes.get(key).cloned());
        for id in links.into_iter().chain(named) {
            assert!(ids.contains(&id), "#{id} is not there");
        }
    }
    parsed
}

/// A line as the page has it.
fn bare(line: &str) -> &str {
    let line = line.trim();
    line.strip_prefix("- ").unwrap_or(line)
}

#[test]
fn the_page_says_what_the_text_says() {
    for told in [
        Told { hang: true, ..Told::default() },
        Told { hang: true, processes: 3, end: None, ..Told::default() },
        Told { known: true, processes: 2, ..Told::default() },
        Told { no_hazard: true, unguarded: true, fail_on: "unguarded".to_owned(), ..Told::default() },
    ] {
        let (mut page, mut lines) = (String::new(), Vec::new());
        seen(&told, |seen| {
            page = text(seen);
            lines.push(super::text::result(seen));
            lines.extend(super::text::hazards(seen, false));
            for same in stood(seen) {
                lines.extend(same.first.named().lines(same.first.process.newest, Detail::Whole));
                lines.extend(same.first.report.verdicts.iter().map(|verdict| verdict.sentence.clone()));
            }
            lines.extend(seen.unguarded());
        });
        let said = well_formed(&page).text;
        let lacking = lines.iter().filter(|line| !said.contains(bare(line)) && !line.starts_with("no hazard"));
        assert_eq!(lacking.collect::<Vec<_>>(), Vec::<&String>::new());
        assert_eq!(page.contains("id=\"waits-0-0-title\""), told.hang, "a picture of the wait");
        assert!(page.contains("id=\"events\"") && page.contains("id=\"start-title\""));
    }
}

#[test]
fn labels_lie_above_every_arrow() {
    let page = page(&Told { hang: true, ..Told::default() });
    let picture = page.split("class=\"picture\"").nth(1).and_then(|rest| rest.split("</svg>").next()).unwrap();
    let (arrow, label) = (picture.rfind("class=\"arrow\""), picture.find("class=\"how\""));
    assert!(label.is_some() && arrow < label && picture.matches("class=\"arrow\"").count() > 1, "{picture}");
}

#[test]
fn names_make_no_tag_and_no_script() {
    let kernel = "</style></script><script>alert(1)</script><img src=x onerror='x'>\"&\u{202e}\n\0";
    let told =
        Told { hang: true, kernel: kernel.to_owned(), processes: 2, file: "<b>.cpp".to_owned(), ..Told::default() };
    let page = page(&told);
    let parsed = well_formed(&page);
    assert!(parsed
        .text
        .contains("</style></script><script>alert(1)</script><img src=x onerror='x'>\"&\\u{202e}\\n\\x00"));
    assert!(!page.contains(['\u{202e}', '\0']));
}

#[test]
fn many_processes_make_no_page_without_end() {
    let told = Told { hang: true, processes: 70, end: None, ..Told::default() };
    let page = page(&told);
    well_formed(&page);
    assert!(page.len() < 400_000, "{}", page.len());
    assert!(page.contains("6 more processes have no bar here"), "70 processes, of which {} have one", start::MOST_BARS);
}

#[test]
fn style_and_script_ask_for_nothing() {
    assert!(STYLE.len() + SCRIPT.len() < 40_000);
    for forbidden in ["url(", "@import", "http:", "https:", "</"] {
        assert!(!STYLE.contains(forbidden), "{forbidden}");
    }
    for forbidden in ["innerHTML", "eval", "import", "fetch(", "</", "<!--", "https:", "document.write"] {
        assert!(!SCRIPT.contains(forbidden), "{forbidden}");
    }
    assert!(!POLICY.contains("unsafe") && POLICY.starts_with("default-src 'none';"));
}

#[test]
fn every_colour_of_a_slice_is_in_the_style() {
    for what in kinds::What::all() {
        assert!(STYLE.contains(&format!("rect.{}", what.class())), "{}", what.class());
    }
}
