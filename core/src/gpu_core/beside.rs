//! What a core dump of the GPU adds to the verdicts of a hang.
//!
//! A verdict names what was submitted and has not ended, as calls have shown it. The core says what of it was on the device.
//!
//! Must not: take a verdict back. A core is of one moment, and of the process's own devices.

use super::{GpuCore, GpuDevice, GpuKernel};
use crate::api::{counted, Code};
use crate::demangle::demangle;
use crate::diagnose::{OperationSeen, Verdict};

const MOST_NAMED: usize = 3;

impl GpuCore {
    /// A sentence for what the core says of each verdict, where it says anything.
    pub fn beside(&self, verdicts: &[Verdict]) -> Vec<String> {
        let mut sentences = Vec::new();
        for verdict in verdicts {
            for culprit in &verdict.culprits {
                if let Some(sentence) = self.about(verdict.code, &culprit.operation) {
                    if !sentences.contains(&sentence) {
                        sentences.push(sentence);
                    }
                }
            }
        }
        sentences
    }

    fn resident(&self) -> impl Iterator<Item = (&GpuDevice, &GpuKernel)> {
        let all = self.devices.iter().flat_map(|device| device.kernels.iter().map(move |kernel| (device, kernel)));
        all.filter(|(_, kernel)| kernel.blocks_resident > 0)
    }

    fn about(&self, code: Code, operation: &OperationSeen) -> Option<String> {
        let name = code.name();
        let graph = operation.graph.as_ref();
        let named: Vec<&str> = match (&operation.function, graph) {
            (Some(function), _) => vec![function],
            (None, Some(graph)) => graph.parts.iter().filter_map(|part| part.function.as_deref()).collect(),
            (None, None) => return None,
        };
        let is_named = |kernel: &GpuKernel| {
            named.iter().any(|name| kernel.symbol.as_deref() == Some(name) || kernel.name == demangle(name))
        };
        let found: Vec<_> = self.resident().filter(|(_, kernel)| is_named(kernel)).collect();
        let launches = |found: &[(&GpuDevice, &GpuKernel)]| {
            let mut text: Vec<_> = found.iter().take(MOST_NAMED).map(|(_, kernel)| kernel.launch()).collect();
            if found.len() > MOST_NAMED {
                text.push(counted((found.len() - MOST_NAMED) as u64, "more launch"));
            }
            text.join(" and ")
        };
        if code == Code::LG206 {
            if let Some((device, kernel)) = found.iter().find(|(device, _)| device.is_full()) {
                let own = match kernel.blocks_not_begun {
                    None | Some(0) => String::new(),
                    Some(rest) => format!(", and {} of its own have found no room", counted(rest, "block")),
                };
                let warps = device.warps_most;
                return Some(format!(
                    "{name} is certain: {} fills GPU {}, all {warps} warps that fit{own}",
                    kernel.launch(),
                    device.id
                ));
            }
        }
        Some(match (found.is_empty(), graph) {
            (false, None) => format!("{name}: what does not end is on the device: {}", launches(&found)),
            (false, Some(_)) => format!("{name}: what does not end in the graph is {}", launches(&found)),
            // A graph may have nodes whose kernels were not seen.
            (true, _) => match self.resident().collect::<Vec<_>>().as_slice() {
                [] => format!("{name}: no kernel was on the device: what does not end waits, or has ended since"),
                others => {
                    format!("{name}: {} was not on the device, but {} was", named_briefly(&named), launches(others))
                }
            },
        })
    }
}

impl GpuDevice {
    pub fn is_full(&self) -> bool {
        self.warps > 0 && self.warps >= self.warps_most
    }
}

fn named_briefly(names: &[&str]) -> String {
    match names {
        [] => "the graph's kernel".to_owned(),
        [name] => demangle(name),
        [name, ..] => format!("{} (or another kernel of the graph)", demangle(name)),
    }
}
