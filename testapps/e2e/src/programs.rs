//! The two lists of programs, and the corpus, which needs none.

use crate::artefacts::{app, corpus_program, hostile_program, root, target};
use crate::header::Header;
use serde_json::Value;
use std::path::PathBuf;

fn list(path: &str) -> Vec<(String, Value)> {
    let path = root().join("testapps").join(path);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let list: serde_json::Map<String, Value> =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    list.into_iter().collect()
}

/// A driver-API program of `testapps/programs.json`.
#[derive(Clone, Debug)]
pub struct App {
    /// The entry's name.
    pub name: String,
    /// The entry.
    pub entry: Value,
}

impl App {
    /// The entry of this name.
    pub fn named(name: &str) -> Self {
        apps().into_iter().find(|app| app.name == name).unwrap_or_else(|| panic!("{name} is not listed"))
    }

    /// The file name of the program.
    pub fn program(&self) -> &str {
        self.entry["program"].as_str().unwrap_or(&self.name)
    }

    /// The program.
    pub fn path(&self) -> PathBuf {
        app(self.program())
    }

    /// Its arguments.
    pub fn args(&self) -> Vec<String> {
        texts(&self.entry["args"])
    }

    /// What it prints when it completes, if it does.
    pub fn expected_output(&self) -> Option<&str> {
        self.entry["expected_output"].as_str()
    }

    /// The code of the verdict when it hangs.
    pub fn expected_code(&self) -> &str {
        self.entry["expected_code"].as_str().unwrap_or_else(|| panic!("{} has no expected code", self.name))
    }

    /// Whether its threads print their lines in any order.
    pub fn unordered(&self) -> bool {
        self.entry["unordered"] == true
    }

    /// Whether it hangs without the guard.
    pub fn hangs_bare(&self) -> bool {
        self.entry["hangs_bare"] == true
    }

    /// Whether it hangs under the guard too.
    pub fn hangs_guarded(&self) -> bool {
        self.entry["hangs_guarded"] == true
    }
}

/// The driver-API programs.
pub fn apps() -> Vec<App> {
    let is_app = |entry: &Value| entry["kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "app"));
    list("programs.json").into_iter().filter(|(_, e)| is_app(e)).map(|(name, entry)| App { name, entry }).collect()
}

/// A run of `testapps/hostile/programs.json`.
#[derive(Clone, Debug)]
pub struct Hostile {
    /// The entry's name.
    pub name: String,
    /// The entry.
    pub entry: Value,
}

impl Hostile {
    /// The entry of this name.
    pub fn named(name: &str) -> Self {
        hostile().into_iter().find(|run| run.name == name).unwrap_or_else(|| panic!("{name} is not listed"))
    }

    /// The file that is run, beneath the target folder; none where it is a command.
    pub fn program(&self) -> Option<PathBuf> {
        self.entry["command"].is_null().then(|| {
            let name = self.entry["program"].as_str().unwrap_or(&self.name);
            match self.entry["folder"].as_str() {
                None => hostile_program(name),
                Some(folder) => target().join(folder).join(name),
            }
        })
    }

    /// The command line.
    pub fn command(&self) -> Vec<String> {
        let program = self.program().map(|path| path.to_string_lossy().into_owned());
        program.into_iter().chain(texts(&self.entry["command"])).chain(texts(&self.entry["args"])).collect()
    }

    /// What it adds to the environment.
    pub fn environment(&self) -> Vec<(String, String)> {
        let entries = self.entry["env"].as_object().into_iter().flatten();
        entries.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
    }

    /// Libraries that it wants preloaded before or after the guard: `preload_before`, `preload_after`.
    pub fn preloaded(&self, key: &str) -> Vec<PathBuf> {
        let folder = target().join(self.entry["folder"].as_str().unwrap_or("hostile"));
        texts(&self.entry[key]).iter().map(|name| folder.join(name)).collect()
    }

    /// A yes-or-no entry; `default` where it is absent.
    pub fn says(&self, key: &str, default: bool) -> bool {
        self.entry[key].as_bool().unwrap_or(default)
    }
}

/// The hostile runs.
pub fn hostile() -> Vec<Hostile> {
    list("hostile/programs.json").into_iter().map(|(name, entry)| Hostile { name, entry }).collect()
}

/// A program of `testapps/corpus`.
#[derive(Clone, Debug)]
pub struct InCorpus {
    /// Its name.
    pub name: String,
    /// Its source.
    pub source: PathBuf,
    /// What its first lines say.
    pub header: Header,
}

impl InCorpus {
    /// The program of this name.
    pub fn named(name: &str) -> Self {
        corpus().into_iter().find(|program| program.name == name).unwrap_or_else(|| panic!("{name} is not there"))
    }

    /// The program.
    pub fn path(&self) -> PathBuf {
        corpus_program(&self.name)
    }
}

/// The programs of the corpus.
pub fn corpus() -> Vec<InCorpus> {
    let mut programs = Vec::new();
    for part in ["hang", "slow", "hazard"] {
        let folder = root().join("testapps/corpus").join(part);
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for source in entries.flatten().map(|entry| entry.path()) {
            let text = std::fs::read_to_string(&source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
            let header = Header::of(&text).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
            let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            programs.push(InCorpus { name, source, header });
        }
    }
    programs
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
