//! A driver call, as a report names it.

use super::{Class, EntryPoint};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A driver call by its exported symbol. In a report of a later version it may be one that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Call {
    /// A call that this version interposes.
    Known(EntryPoint),
    /// Any other.
    Unknown(String),
}

impl Call {
    pub fn symbol(&self) -> &str {
        match self {
            Self::Known(entry_point) => entry_point.symbol(),
            Self::Unknown(symbol) => symbol,
        }
    }

    pub fn class(&self) -> Option<Class> {
        match self {
            Self::Known(entry_point) => Some(entry_point.class()),
            Self::Unknown(_) => None,
        }
    }
}

impl From<EntryPoint> for Call {
    fn from(entry_point: EntryPoint) -> Self {
        Self::Known(entry_point)
    }
}

impl From<String> for Call {
    fn from(symbol: String) -> Self {
        EntryPoint::by_symbol(symbol.as_bytes()).map_or(Self::Unknown(symbol), Self::Known)
    }
}

impl From<Call> for String {
    fn from(call: Call) -> Self {
        call.symbol().to_owned()
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.symbol())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_written_by_its_symbol_and_an_unknown_one_is_kept() {
        for (symbol, class) in [("cuLaunchKernel", Some(Class::Launch)), ("cuOfALaterVersion", None)] {
            let read: Call = serde_json::from_value(symbol.into()).unwrap();
            assert_eq!((read.class(), read.to_string()), (class, symbol.to_owned()));
            assert_eq!(serde_json::to_value(&read).unwrap(), symbol);
        }
    }
}
