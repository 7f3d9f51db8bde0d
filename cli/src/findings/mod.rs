//! What a run has found, once it is over: a stand-in that knows of hangs alone.

use crate::Failure;
use std::path::PathBuf;
use std::str::FromStr;

/// A run that is over.
#[derive(Debug)]
#[expect(dead_code, reason = "the stand-in looks at the root alone")]
pub(crate) struct Finished {
    pub command: Vec<String>,
    pub root: PathBuf,
    pub started_unix_nanos: u64,
    pub nanos: u64,
    pub end: End,
    pub rank: Option<String>,
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Exited(u8),
    Signalled(i32),
    TimedOut,
    EndedOnHang,
}

/// What makes a run fail.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailOn {
    hang: bool,
}

impl FromStr for FailOn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut fail_on = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            match item.strip_prefix("hazard:").unwrap_or(item) {
                "hang" => fail_on.hang = true,
                "hazard" | "prevented" => {}
                code if code.starts_with("LG") => {}
                _ => return Err(format!("{item} is none of hang, hazard, hazard:CODE, CODE, prevented")),
            }
        }
        Ok(fail_on)
    }
}

/// For which CI system annotations are written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Annotations {
    Wanted,
    Off,
}

impl FromStr for Annotations {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "auto" | "github" | "gitlab" | "azure" | "teamcity" => Ok(Self::Wanted),
            _ => Err("values: auto, off, github, gitlab, azure, teamcity".to_owned()),
        }
    }
}

/// What is wanted of the findings.
#[derive(Debug)]
#[expect(dead_code, reason = "the stand-in writes no file")]
pub(crate) struct Wanted {
    pub fail_on: FailOn,
    pub junit: Option<PathBuf>,
    pub json: Option<PathBuf>,
    pub sarif: Option<PathBuf>,
    pub suppressions: Vec<PathBuf>,
    pub baseline: Option<PathBuf>,
    pub write_baseline: Option<PathBuf>,
    pub annotations: Annotations,
    pub summary: bool,
}

/// Why a run failed that the program has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "the stand-in finds no hazards")]
pub(crate) enum FailedOn {
    Hang,
    Hazard,
}

/// What comes of a run.
#[derive(Debug)]
pub(crate) struct Conclusion {
    pub failed: Option<FailedOn>,
    pub keep: bool,
    pub lines: Vec<String>,
}

/// Looks at what the processes of a run have left.
pub(crate) fn conclude(run: &Finished, wanted: &Wanted) -> Result<Conclusion, Failure> {
    let folders = std::fs::read_dir(&run.root).into_iter().flatten().flatten();
    let hung = folders.filter(|entry| hang_of(&entry.path().join("hang.json"))).count();
    let failed = (wanted.fail_on.hang && hung > 0).then_some(FailedOn::Hang);
    Ok(Conclusion { failed, keep: hung > 0, lines: Vec::new() })
}

fn hang_of(path: &std::path::Path) -> bool {
    let report = std::fs::read(path).ok().and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
    report.is_some_and(|report| report["standing"] == "hang" && report["resolved"].is_null())
}
