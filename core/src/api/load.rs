//! Loads on first use.

/// The two lazy loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColdKind {
    /// A function's first use: returns at once and puts a barrier on the device.
    Function,
    /// A module's or library's first use in the context: blocks the thread until the context is idle.
    Module,
}
