//! The catalogue of codes. Each has a page in `docs/HAZARDS.md`.

/// A hang (LG2xx) or a hazard (LG1xx).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[allow(missing_docs)] // `title` says what each is.
pub enum Code {
    LG101,
    LG102,
    LG201,
    LG202,
    LG203,
    LG299,
}

impl Code {
    /// Every code this build can give.
    pub const ALL: [Self; 6] = [Self::LG101, Self::LG102, Self::LG201, Self::LG202, Self::LG203, Self::LG299];

    /// The code as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::LG101 => "LG101",
            Self::LG102 => "LG102",
            Self::LG201 => "LG201",
            Self::LG202 => "LG202",
            Self::LG203 => "LG203",
            Self::LG299 => "LG299",
        }
    }

    /// Its number, as records carry it.
    pub fn number(self) -> u64 {
        match self {
            Self::LG101 => 101,
            Self::LG102 => 102,
            Self::LG201 => 201,
            Self::LG202 => 202,
            Self::LG203 => 203,
            Self::LG299 => 299,
        }
    }

    /// The code with this number.
    pub fn by_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.number() == number)
    }

    /// What it means, in one line.
    pub fn title(self) -> &'static str {
        match self {
            Self::LG101 => "a cold function was loaded while other work was in flight",
            Self::LG102 => "a module was loaded into a context with work in flight",
            Self::LG201 => "a cold function load put a barrier on the device behind work that does not end",
            Self::LG202 => "a thread is blocked loading a module into a context with work that does not end",
            Self::LG203 => "a stream waits for a value that no submitted operation writes",
            Self::LG299 => "blocked, and none of the known patterns explains it",
        }
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
