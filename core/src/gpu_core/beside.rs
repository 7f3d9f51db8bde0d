//! Adds a core dump of the GPU to the verdicts of a hang.
//!
//! A verdict names what was submitted and has not ended, as calls have shown it. The core says what of it was on the device.
//!
//! LG210 replaces the code of a kernel that does not end, if the core shows that the kernel's own warps keep it from ending.
//!
//! Must not: take a verdict back. A core is of one moment, and of the process's own devices.

use super::{Doing, GpuCore, GpuDevice, GpuFrame, GpuKernel, GpuPlace};
use crate::api::{counted, Code};
use crate::demangle::demangle;
use crate::diagnose::{Confidence, Extent, OperationSeen, Verdict};

const MOST_NAMED: usize = 3;

const FIX: &str = "have every thread that the barrier counts arrive at it, in each phase, and every announced byte copied, also on the paths that \
                   leave a loop early";

const FIX_OF_GRID: &str =
    "have every block of the grid call grid.sync() equally often, also those that leave a loop early or have no work";

impl GpuCore {
    /// A sentence of the core on each verdict on which it has anything to say.
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

    /// Verdicts without another reason become LG210 where the kernel to blame waits inside itself.
    pub fn sharpen(&self, verdicts: &mut [Verdict]) {
        for verdict in verdicts.iter_mut().filter(|verdict| is_unexplained(verdict.code)) {
            let said = verdict.culprits.iter().find_map(|culprit| self.waits_inside(&culprit.operation));
            if let Some(said) = said {
                verdict.chain.push(verdict.sentence.clone());
                (verdict.code, verdict.confidence) = (Code::LG210, Confidence::Certain);
                verdict.title = Code::LG210.title().to_owned();
                verdict.sentence = format!("{said}.");
                verdict.fix = FIX.to_owned();
            } else if let Some(said) =
                verdict.culprits.iter().find_map(|culprit| self.grid_never_meets(&culprit.operation))
            {
                verdict.chain.push(verdict.sentence.clone());
                // A core of the moment at which a grid ends shows the same.
                (verdict.code, verdict.confidence) = (Code::LG210, Confidence::Likely);
                verdict.title = Code::LG210.title().to_owned();
                verdict.sentence = format!("{said}.");
                verdict.fix = FIX_OF_GRID.to_owned();
            }
        }
    }

    /// How the rest of a cooperative grid waits for the whole grid, of which blocks have ended. The driver's count of such a grid's blocks is too
    /// small, so the launch says how many there were: all were resident at once.
    fn grid_never_meets(&self, operation: &OperationSeen) -> Option<String> {
        let Some(Extent::Grid { blocks, .. }) = operation.extent.filter(|_| operation.at_once) else { return None };
        let named = names(operation);
        let (_, kernel) = self.resident().find(|(_, kernel)| kernel.is_named(&named))?;
        let ended = blocks.checked_sub(kernel.blocks_resident).filter(|ended| *ended > 0)?;
        let meets = |place: &GpuPlace| place.doing == Doing::WaitsAtGridBarrier;
        // Their blocks' other threads wait for those that are at the grid's barrier.
        let waits =
            |place: &GpuPlace| meets(place) || matches!(place.doing, Doing::WaitsAtBarrier | Doing::WaitsForLanes);
        let place = kernel.places.iter().find(|place| meets(place)).filter(|_| kernel.places.iter().all(waits))?;
        let line = place.frames.last().and_then(GpuFrame::line_in_words).map(|line| format!(" ({line})"));
        Some(format!(
            "{}: {} of {} of its grid wait for the whole grid{}, and {ended} {} ended: the blocks synchronize the grid unequal numbers of times",
            kernel.name,
            kernel.blocks_resident,
            counted(blocks, "block"),
            line.unwrap_or_default(),
            if ended == 1 { "has" } else { "have" }
        ))
    }

    /// How an operation's kernel waits inside itself, for ever.
    fn waits_inside(&self, operation: &OperationSeen) -> Option<String> {
        let named = names(operation);
        let mut found = self.resident().filter(|(_, kernel)| kernel.is_named(&named));
        found.find_map(|(_, kernel)| Some(kernel.wait_line(kernel.stuck()?)))
    }

    fn resident(&self) -> impl Iterator<Item = (&GpuDevice, &GpuKernel)> {
        let all = self.devices.iter().flat_map(|device| device.kernels.iter().map(move |kernel| (device, kernel)));
        all.filter(|(_, kernel)| kernel.blocks_resident > 0)
    }

    fn about(&self, code: Code, operation: &OperationSeen) -> Option<String> {
        let name = code.name();
        let graph = operation.graph.as_ref();
        let named = names(operation);
        if named.is_empty() && graph.is_none() {
            return None;
        }
        let found: Vec<_> = self.resident().filter(|(_, kernel)| kernel.is_named(&named)).collect();
        let launches = |found: &[(&GpuDevice, &GpuKernel)]| {
            let mut text: Vec<_> = found.iter().take(MOST_NAMED).map(|(_, kernel)| kernel.launch()).collect();
            if found.len() > MOST_NAMED {
                text.push(counted((found.len() - MOST_NAMED) as u64, "more launch"));
            }
            text.join(" and ")
        };
        if let Some((_, kernel)) = found.iter().find(|(_, kernel)| kernel.stuck().is_some()) {
            let keeps = format!("{} keeps itself from ending", kernel.launch());
            match code {
                Code::LG210 => return Some(format!("{name}: {keeps}")),
                code if is_unexplained(code) => return Some(format!("{} in place of {name}: {keeps}", Code::LG210)),
                _ => {}
            }
        }
        let lacks = |place: &&GpuPlace| place.doing == Doing::WaitsForRegisters;
        if let Some(place) =
            found.iter().flat_map(|(_, kernel)| &kernel.places).find(lacks).filter(|_| is_unexplained(code))
        {
            return Some(format!("{name}: {}, until other warps of the block give theirs back", place.line()));
        }
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

/// Whether a code says of a kernel only that it does not end.
fn is_unexplained(code: Code) -> bool {
    matches!(code, Code::LG206 | Code::LG299)
}

fn names(operation: &OperationSeen) -> Vec<&str> {
    match (&operation.function, &operation.graph) {
        (Some(function), _) => vec![function],
        (None, Some(graph)) => graph.parts.iter().filter_map(|part| part.function.as_deref()).collect(),
        (None, None) => Vec::new(),
    }
}

impl GpuKernel {
    fn is_named(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.symbol.as_deref() == Some(name) || self.name == demangle(name))
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
