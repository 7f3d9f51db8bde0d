//! `hazards.json`: the hazards of one process.

use super::Hazard;
use crate::order;
use crate::report::json;
use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HazardFile {
    /// 1; raised when a key changes its meaning or goes away.
    pub schema: u32,
    /// The process id.
    pub process: u32,
    /// The program's file name.
    pub program: String,
    /// The rank in the job, or empty.
    pub rank: String,
    /// By first occurrence.
    pub hazards: Vec<Hazard>,
    /// Occurrences beyond the list's capacity.
    pub overflow: u64,
}

impl HazardFile {
    pub fn json(&self) -> String {
        json(self)
    }
}

/// Each once, with the greater count: a killed process may have recorded more than it had time to write down.
pub fn joined(mut of_file: Vec<Hazard>, of_recording: Vec<Hazard>) -> Vec<Hazard> {
    for hazard in of_recording {
        match of_file.iter_mut().find(|known| known.key() == hazard.key()) {
            Some(known) if known.count >= hazard.count => {}
            Some(known) => *known = hazard,
            None => of_file.push(hazard),
        }
    }
    order::sort_by_key(&mut of_file, |hazard| hazard.first.at);
    of_file
}
