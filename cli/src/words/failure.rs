//! Why a command failed, and the exit code of each kind of failure.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

#[derive(Debug)]
pub(crate) enum Failure {
    /// What was asked for is not there or cannot be read; the text says what and why.
    Input(String),
    /// The arguments do not go together; the text says why.
    Usage(String),
    /// Standard output cannot be written.
    Output(io::Error),
}

impl Failure {
    pub fn at(path: impl AsRef<Path>, why: impl Display) -> Self {
        Self::Input(format!("{}: {why}", path.as_ref().display()))
    }

    /// As the parser of arguments has them.
    pub fn exit_code(&self) -> u8 {
        match matches!(self, Self::Usage(_)) {
            true => 2,
            false => 1,
        }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Input(text) | Self::Usage(text) => f.write_str(text),
            Self::Output(error) => write!(f, "cannot write: {error}"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

pub(crate) type Outcome = Result<ExitCode, Failure>;
