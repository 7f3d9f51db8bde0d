//! The template of the run folder (`LAZYGUARD_OUT`), and its fields.

use std::path::PathBuf;

#[derive(Clone, Copy, Debug)]
pub struct FolderFacts<'a> {
    pub host: &'a str,
    pub process: u32,
    pub rank: Option<&'a str>,
    pub start_seconds: u64,
}

const FIELDS: [&str; 5] = ["%h", "%p", "%r", "%t", "%%"];

/// The texts of a template, and its fields of two characters; a percent sign at the end stands alone.
fn tokens(template: &str) -> impl Iterator<Item = &str> {
    let mut rest = template;
    std::iter::from_fn(move || {
        let field = || rest.chars().take(2).map(char::len_utf8).sum();
        let (token, after) = rest.split_at(rest.find('%').map_or(rest.len(), |at| if at == 0 { field() } else { at }));
        rest = after;
        (!token.is_empty()).then_some(token)
    })
}

pub fn unknown_field(template: &str) -> Option<String> {
    tokens(template).find(|token| token.starts_with('%') && !FIELDS.contains(token)).map(str::to_owned)
}

pub fn unknown_field_complaint(whose: &str, field: &str) -> String {
    format!("{whose} has {field}, which is no field and stands as it was written (fields: %h, %p, %r, %t; %% is a percent sign)")
}

pub fn literal_folder(folder: &str) -> String {
    folder.replace('%', "%%")
}

/// The part of `LAZYGUARD_OUT` before the first part with a field; it may be empty.
pub fn common_folder(template: &str) -> PathBuf {
    let has_field = |part: &str| tokens(part).any(|token| token != "%%" && FIELDS.contains(&token));
    let parts: Vec<_> = template.split_inclusive('/').take_while(|part| !has_field(part)).collect();
    PathBuf::from(parts.concat().replace("%%", "%"))
}

/// An unknown `%` field stays as it was written.
pub fn expand_folder(template: &str, facts: &FolderFacts<'_>) -> String {
    let value = |token: &str| match token {
        "%h" => facts.host.to_owned(),
        "%p" => facts.process.to_string(),
        "%r" => facts.rank.unwrap_or("0").to_owned(),
        "%t" => facts.start_seconds.to_string(),
        "%%" => "%".to_owned(),
        other => other.to_owned(),
    };
    tokens(template).map(value).collect()
}
