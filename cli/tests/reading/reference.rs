//! `docs/REFERENCE.md`: the JSON forms, generated from the types that write them.
//!
//! The test reads the sources of the core and the command. A key is a field; its description is the field's comment, unless the comment
//! only repeats the key. Each type is described once, and so is each key that several types share. `scripts/reference` writes the page.
//!
//! Must not: describe a key by itself. A field without a comment is an error.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use syn::{Attribute, Fields, GenericArgument, Item, PathArguments, Type};

/// Set to write the page instead of comparing it.
const WRITE: &str = "LAZYGUARD_WRITE_REFERENCE";

/// The forms, in the order of the page: heading, type, and what is said before the table.
const FORMS: [(&str, &str, &str); 12] = [
    ("hang.json", "HangReport", "The newest hang report in the run folder; `hang` in the forms below."),
    ("run.json", "Summary", "The summary in the run folder, of the last exit, hang or end by `LAZYGUARD_ON_HANG`."),
    ("hazards.json", "HazardFile", "A process's hazards, in the run folder; exact from its exit on."),
    ("dump.json", "DumpReport", "The answer to the newest request, in the run folder. `lazyguard report PID --format json` prints it if the recording is in memory."),
    ("lazyguard report PID --format json, without the guard", "Attached", "A process without the guard. No file has this form."),
    ("card.json", "Cards", "The cards during a run. `lazyguard run --cold-start` writes it beside the folders of the processes."),
    ("lazyguard report --format json", "ProcessReport", "The report of one process."),
    (
        "lazyguard report --gpu-core --format json",
        "GpuCore",
        "A GPU core dump; `gpu` in the report of a process. Addresses are the device's.",
    ),
    (
        "lazyguard run --json",
        "Findings",
        "The findings of a run. `lazyguard report --hazards --format json`, and `--format json` of a folder with several processes, print the same with `run` null.",
    ),
    (
        "lazyguard report --cold-start --format json",
        "Timings",
        "Also of `--blocking`. Times in `cold_start` count from the start of the process.",
    ),
    ("lazyguard log --format json", "Line", LOG),
    ("lazyguard doctor --format json", "Examination", "The doctor's findings."),
];

const LOG: &str = "One object a line. A key that does not apply is absent.

`event` is one of these:

- `launch`, `graph_launch`, `host_function`: a kernel, a graph, a host function is submitted
- `copy`, `memset`: memory is copied or set, synchronously or asynchronously
- `memory_operation`: a stream waits for a value, or writes one
- `event_record`, `event_wait`: an event is recorded; a stream waits for one
- `synchronize`, `query`: a thread waits for a context, a stream or an event, or queries it
- `load`, `unload`: a module, library or function; every call that loaded on first use
- `preload`: the guard preloaded
- `hazard`: the call and the work in flight could have been a hang
- `allocation`: memory is allocated or freed
- `context`, `stream`, `capture`: one begins or ends
- `communication`: a communicator of NCCL is made or ends; a collective, a send or a receive is called
- `other`: every other call that took 100 microseconds or more

Allocations, frees and other short calls are recorded if they took 100 microseconds or more. `log.jsonl` in the run folder is
[another form](CONFIGURATION.md#the-log).";

const HEAD: &str = "# Reference: JSON forms

<!-- written by scripts/reference from the types: edit their comments, not this page -->

Every key of every JSON form. [READING.md](READING.md) is the guide, [FINDINGS.md](FINDINGS.md) has JUnit, SARIF, annotations and
baselines, and [TRACE_FORMAT.md](TRACE_FORMAT.md) the bytes of the recording.

`key`? may be absent; a value marked `?` may be null; `[ ]` is a list. `ns` is a number of nanoseconds, of a time since the guard was armed
unless the key says otherwise (`..._unix_ns`: since 1970). A key without a description holds what its name says. `schema`, in every
form that is a file or a run, is 1; a release that removes a key or changes its meaning raises it. Any release may add keys.

These keys mean the same in several types:

";

/// A key that so many types have with one description is described once.
const SHARED_BY: usize = 3;

/// The key that the head of the page describes for every form.
const EVERYWHERE: &str = "schema";

/// Types that are written as one value, and what it is.
const VALUES: [(&str, &str); 21] = [
    ("u8", "number"),
    ("u16", "number"),
    ("u32", "number"),
    ("u64", "number"),
    ("usize", "number"),
    ("i32", "number"),
    ("f64", "number"),
    ("Nanos", "ns"),
    ("bool", "bool"),
    ("str", "text"),
    ("String", "text"),
    ("Path", "text"),
    ("PathBuf", "text"),
    ("Address", "text"),
    ("ThreadState", "text"),
    ("Call", "text"),
    ("Code", "[code](HAZARDS.md)"),
    ("Box", ""),
    ("Cow", ""),
    ("Arc", ""),
    ("Rc", ""),
];

/// The types that have a written form, by name.
struct Types(HashMap<String, Vec<(PathBuf, Item)>>);

impl Types {
    fn read() -> Self {
        let mut types = Self(HashMap::new());
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        for source in ["src", "../core/src"] {
            types.read_folder(&here.join(source));
        }
        types
    }

    fn read_folder(&mut self, folder: &Path) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.read_folder(&path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                // Most files have nothing of the kind, and parsing costs.
                if text.contains("Serialize") {
                    let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                    file.items.into_iter().for_each(|item| self.add(&path, item));
                }
            }
        }
    }

    fn add(&mut self, path: &Path, item: Item) {
        let (name, attributes) = match &item {
            Item::Struct(item) => (&item.ident, &item.attrs),
            Item::Enum(item) => (&item.ident, &item.attrs),
            _ => return,
        };
        if attributes.iter().any(derives_serialize) {
            self.0.entry(name.to_string()).or_default().push((path.to_owned(), item));
        }
    }

    /// The type of this name, as code in `near` means it.
    fn get(&self, name: &str, near: Option<&Path>) -> &(PathBuf, Item) {
        let found = self.0.get(name).unwrap_or_else(|| panic!("no type {name} derives Serialize"));
        match (found.as_slice(), near) {
            ([only], _) => only,
            (several, Some(near)) if several.iter().any(|(path, _)| path == near) => {
                several.iter().find(|(path, _)| path == near).unwrap()
            }
            _ => panic!("several types are called {name}: give them names of their own"),
        }
    }
}

fn derives_serialize(attribute: &Attribute) -> bool {
    let mut found = false;
    if attribute.path().is_ident("derive") {
        let _ = attribute.parse_nested_meta(|meta| {
            found |= meta.path.segments.last().is_some_and(|last| last.ident == "Serialize");
            Ok(())
        });
    }
    found
}

/// The serde attributes of a type, a variant or a field.
#[derive(Default)]
struct Serde {
    rename: Option<String>,
    rename_all: Option<String>,
    flatten: bool,
    skip: bool,
    skip_if: Option<String>,
}

impl Serde {
    fn of(attributes: &[Attribute]) -> Self {
        let mut told = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            let read = attribute.parse_nested_meta(|meta| {
                let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
                let value = match meta.value() {
                    Ok(value) => Some(value.parse::<syn::LitStr>()?.value()),
                    Err(_) => None,
                };
                match name.as_str() {
                    "rename" => told.rename = value,
                    "rename_all" => told.rename_all = value,
                    "flatten" => told.flatten = true,
                    "skip" | "skip_serializing" => told.skip = true,
                    // A type with a row in `VALUES`.
                    "into" => {}
                    "skip_serializing_if" => told.skip_if = value,
                    // These are about reading.
                    "default" | "other" | "alias" | "deserialize_with" | "from" => {}
                    other => return Err(meta.error(format!("this page does not know serde's {other}"))),
                }
                Ok(())
            });
            read.unwrap();
        }
        told
    }
}

/// The comment of a type, a variant or a field, on one line and without rustdoc's links.
fn comment(attributes: &[Attribute], of: &str) -> String {
    let lines =
        attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).map(|attribute| {
            match &attribute.meta.require_name_value().unwrap().value {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => text.value().trim().to_owned(),
                _ => panic!("{of} has a comment that is no text"),
            }
        });
    let text = lines.collect::<Vec<_>>().join(" ").replace("[`", "`").replace("`None`", "null").replace("`]", "`");
    assert!(!text.is_empty(), "{of} is written as JSON and has no comment");
    text
}

/// Whether a description only repeats the key.
fn repeats(key: &str, comment: &str) -> bool {
    let of_key: Vec<&str> = key.split(['_', '.', '-', ' ']).collect();
    let mut words =
        comment.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase);
    words.all(|word| ["a", "an", "its", "of", "s", "the", "this"].contains(&&*word) || of_key.contains(&&*word))
}

/// A description as it follows its key; of a truth value the truth.
fn after(comment: &str) -> String {
    let comment = comment.strip_prefix("Whether ").unwrap_or(comment);
    let one_sentence = !comment.trim_end_matches('.').contains(". ");
    format!(": {}", if one_sentence { comment.trim_end_matches('.') } else { comment })
}

fn snake_case(name: &str, separator: char) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push(separator);
        }
        text.extend(letter.to_lowercase());
    }
    text
}

fn variant_name(variant: &syn::Variant, rename_all: Option<&str>) -> String {
    let name = variant.ident.to_string();
    match (Serde::of(&variant.attrs).rename, rename_all) {
        (Some(name), _) => name,
        (None, None) => name,
        (None, Some("lowercase")) => name.to_lowercase(),
        (None, Some("snake_case")) => snake_case(&name, '_'),
        (None, Some("kebab-case")) => snake_case(&name, '-'),
        (None, Some(other)) => panic!("this page does not know rename_all = {other}"),
    }
}

struct Page<'a> {
    types: &'a Types,
    text: String,
    /// How many types have a key with this description.
    shared: BTreeMap<(String, String), usize>,
    /// Those that the head of the page describes, by key.
    at_the_head: BTreeMap<String, String>,
    /// The types that the page has, or will have, in the order in which they are met.
    met: Vec<(String, PathBuf)>,
}

impl Page<'_> {
    /// The page, and how many types share each key with its description.
    fn write(mut self) -> (String, BTreeMap<(String, String), usize>) {
        self.text.push_str(HEAD);
        for (key, described) in &self.at_the_head {
            let _ = writeln!(self.text, "- `{key}`{}", after(described));
        }
        for (_, name, _) in FORMS {
            let path = self.types.get(name, None).0.clone();
            self.met.push((name.to_owned(), path));
        }
        for (n, (heading, name, words)) in FORMS.into_iter().enumerate() {
            let path = self.met[n].1.clone();
            let _ = write!(self.text, "\n## `{heading}`\n\n{words}\n");
            self.describe(name, &path);
        }
        self.text.push_str("\n## Parts of the forms\n");
        let mut next = FORMS.len();
        while let Some((name, path)) = self.met.get(next).cloned() {
            let attributes = match &self.types.get(&name, Some(&path)).1 {
                Item::Struct(item) => &item.attrs,
                Item::Enum(item) => &item.attrs,
                _ => unreachable!("only these are kept"),
            };
            let described = comment(attributes, &name);
            let described =
                if repeats(&snake_case(&name, '_'), &described) { String::new() } else { format!("\n{described}\n") };
            let _ = write!(self.text, "\n### {name}\n{described}");
            self.describe(&name, &path);
            next += 1;
        }
        (self.text, self.shared)
    }

    fn describe(&mut self, name: &str, path: &Path) {
        match &self.types.get(name, Some(path)).1 {
            Item::Struct(item) => {
                self.text.push('\n');
                let rows = self.rows(&item.fields, path, name, "");
                self.text.push_str(&rows);
            }
            Item::Enum(item) => {
                let rename_all = Serde::of(&item.attrs).rename_all;
                let names = item.variants.iter().map(|variant| (variant_name(variant, rename_all.as_deref()), variant));
                let words_alone = item.variants.iter().all(|variant| variant.fields.is_empty());
                self.text.push_str(if words_alone { "\n" } else { "\nAn object with one key, of these:\n\n" });
                for (word, variant) in names {
                    let described = comment(&variant.attrs, &format!("{name}.{word}"));
                    let described = if repeats(&word, &described) { String::new() } else { after(&described) };
                    let _ = writeln!(self.text, "- `{word}`{described}");
                    let rows = self.rows(&variant.fields, path, name, &format!("{word}."));
                    self.text.push_str(&rows);
                }
            }
            _ => unreachable!("only these are kept"),
        }
    }

    /// A line for each field: key, kind of value, description. A flattened type is named, and described apart.
    fn rows(&mut self, fields: &Fields, path: &Path, of: &str, before: &str) -> String {
        let mut rows = String::new();
        for field in fields {
            let name = field.ident.as_ref().unwrap_or_else(|| panic!("{of} has a field without a name")).to_string();
            let serde = Serde::of(&field.attrs);
            if serde.skip {
                continue;
            }
            let is = self.kind(&field.ty, path);
            if serde.flatten {
                let _ = writeln!(rows, "- and the keys of {is}");
                continue;
            }
            let key = serde.rename.unwrap_or(name);
            let described = comment(&field.attrs, &format!("{of}.{key}"));
            if key == EVERYWHERE {
                continue;
            }
            let (absent, is) = match serde.skip_if.as_deref() {
                None => ("", is),
                Some("Option::is_none" | "Vec::is_empty" | "std::ops::Not::not") => {
                    ("?", is.trim_end_matches('?').to_owned())
                }
                Some(other) => panic!("this page does not know skip_serializing_if = {other}"),
            };
            let is_known = match self.at_the_head.get(&key) {
                Some(at_the_head) => *at_the_head == described,
                None => repeats(&key, &described),
            };
            *self.shared.entry((key.clone(), described.clone())).or_default() += usize::from(!is_known);
            let described = if is_known { String::new() } else { after(&described) };
            let _ = writeln!(rows, "- `{before}{key}`{absent} {is}{described}");
        }
        rows
    }

    fn kind(&mut self, of: &Type, path: &Path) -> String {
        match bare(of) {
            Type::Slice(list) => format!("\\[{}\\]", self.kind(&list.elem, path)),
            Type::Array(list) => format!("\\[{}\\]", self.kind(&list.elem, path)),
            Type::Tuple(list) => {
                let parts: Vec<_> = list.elems.iter().map(|part| self.kind(part, path)).collect();
                format!("({})", parts.join(", "))
            }
            Type::Path(named) => {
                let last = named.path.segments.last().unwrap();
                let name = last.ident.to_string();
                let inner = match &last.arguments {
                    PathArguments::AngleBracketed(inner) => inner.args.iter().find_map(|argument| match argument {
                        GenericArgument::Type(inner) => Some(inner),
                        _ => None,
                    }),
                    _ => None,
                };
                let known = VALUES.iter().find(|(known, _)| *known == name).map(|(_, words)| *words);
                match (known, inner) {
                    (None, Some(inner)) if name == "Option" => self.kind(inner, path) + "?",
                    (None, Some(inner)) if name == "Vec" || name == "BTreeSet" => {
                        format!("\\[{}\\]", self.kind(inner, path))
                    }
                    (Some(words), Some(inner)) => words.to_owned() + &self.kind(inner, path),
                    (Some(words), None) => words.to_owned(),
                    (None, _) => {
                        let at = self.types.get(&name, Some(path)).0.clone();
                        if !self.met.iter().any(|met| *met == (name.clone(), at.clone())) {
                            self.met.push((name.clone(), at));
                        }
                        let form = FORMS.iter().find(|(_, form, _)| *form == name);
                        let heading = form.map_or(name.as_str(), |(heading, _, _)| heading);
                        let anchor: String = heading.to_lowercase().replace(' ', "-");
                        let anchor = anchor.replace(|c: char| !c.is_alphanumeric() && c != '-', "");
                        format!("[{heading}](#{anchor})")
                    }
                }
            }
            _ => panic!("{} has a field of a type that this page does not know", path.display()),
        }
    }
}

/// A type without references.
fn bare(of: &Type) -> &Type {
    match of {
        Type::Reference(reference) => bare(&reference.elem),
        other => other,
    }
}

#[test]
fn the_reference_is_what_the_types_say() {
    let types = Types::read();
    let page = |at_the_head| Page {
        types: &types,
        text: String::new(),
        shared: BTreeMap::new(),
        at_the_head,
        met: Vec::new(),
    };
    let (_, mut shared) = page(BTreeMap::new()).write();
    shared.retain(|_, types| *types >= SHARED_BY);
    let mut shared: Vec<_> = shared.into_iter().collect();
    // Of several descriptions of a key, the commonest comes last and stays.
    shared.sort_by_key(|(_, types)| *types);
    let (text, _) = page(shared.into_iter().map(|(described, _)| described).collect()).write();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/REFERENCE.md");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(page, text).unwrap();
        return;
    }
    let there = std::fs::read_to_string(page).unwrap_or_default();
    let differs = there.lines().zip(text.lines()).find(|(there, made)| there != made);
    assert!(there == text, "docs/REFERENCE.md is stale, first at {differs:?}: run scripts/reference");
}
