//! The sentences about a GPU core dump.
//!
//! Must not: use more than eight lines of a kernel.

use super::{Doing, GpuCore, GpuDevice, GpuFault, GpuFrame, GpuKernel, GpuPlace, GridStatus};
use crate::api::counted;

const MOST_PLACES: usize = 6;

impl GpuCore {
    /// The core in lines for a person: those of each device and of its kernels, and what could not be read.
    pub fn lines(&self) -> Vec<String> {
        // Several idle devices share a line.
        let (idle, busy): (Vec<_>, Vec<_>) = self.devices.iter().partition(|device| device.is_idle());
        let mut lines: Vec<_> = busy.into_iter().flat_map(GpuDevice::lines).collect();
        match idle.as_slice() {
            [] => {}
            [device] => lines.extend(device.lines()),
            [first, .., last] => lines.push(format!(
                "{}, GPU {} to {}: no kernel",
                counted(idle.len() as u64, "device"),
                first.id,
                last.id
            )),
        }
        lines.extend(self.defect_lines());
        lines
    }

    pub fn defect_lines(&self) -> impl Iterator<Item = String> + '_ {
        self.defects.iter().map(|defect| format!("not all of the file could be read: {defect}"))
    }
}

impl GpuDevice {
    fn is_idle(&self) -> bool {
        self.kernels.is_empty() && self.faults.is_empty()
    }

    /// A line of the device, those of its faults, at most eight of each kernel, and the waits inside them.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = self.head();
        for kernel in &self.kernels {
            lines.extend(kernel.lines().into_iter().map(|line| format!("  {line}")));
        }
        lines.extend(self.kernels.iter().flat_map(GpuKernel::wait_lines).map(|line| format!("  {line}")));
        if self.waits_unread && self.warps > 0 {
            let target = &self.target;
            lines.push(format!("  who waits for whom inside a kernel is not read on {target}: no core of such a device has been checked"));
        }
        lines
    }

    /// A line of the device, and those of its faults.
    pub fn head(&self) -> Vec<String> {
        let kernels = match self.kernels.len() {
            0 => "no kernel".to_owned(),
            count => counted(count as u64, "kernel"),
        };
        let mut lines = vec![format!("GPU {} ({}): {kernels}{}", self.id, self.name, self.room())];
        lines.extend(self.faults.iter().map(|fault| format!("  {}", fault.line())));
        lines
    }

    fn room(&self) -> String {
        match (self.warps, self.warps_most) {
            (0, _) => String::new(),
            (warps, most) if warps >= most => {
                format!("; all {most} warps that fit are taken, there is no room for another block")
            }
            (warps, most) => format!("; {warps} of the {most} warps that fit are taken"),
        }
    }
}

impl GpuFault {
    fn line(&self) -> String {
        let place = match (self.frames.first(), self.address) {
            (Some(frame), Some(address)) => format!(" at {address:#x} in {}", frame.text(None)),
            (None, Some(address)) => format!(" at {address:#x}"),
            _ => String::new(),
        };
        format!("exception: {}{place}", self.what)
    }
}

impl GpuKernel {
    /// The launch as CUDA writes it: `outer<<<(2,1,1), (64,1,1)>>>`.
    pub fn launch(&self) -> String {
        format!("{}<<<({}), ({})>>>", self.name, three(self.grid), three(self.block))
    }

    /// At most eight lines: what is resident, and where it stands.
    pub fn lines(&self) -> Vec<String> {
        let resident = match (self.blocks_resident, self.blocks) {
            (0, Some(blocks)) if self.status == GridStatus::Pending => {
                format!("none of its {} is resident: it has not begun", counted(blocks, "block"))
            }
            (0, _) => "none of its blocks is resident".to_owned(),
            (resident, Some(blocks)) => match self.blocks_not_begun {
                None | Some(0) => format!("{resident} of {} resident", counted(blocks, "block")),
                Some(rest) => format!("{resident} of {} resident, {rest} have not begun", counted(blocks, "block")),
            },
            (resident, None) => format!("{} resident", counted(resident, "block")),
        };
        let ended = match self.warps_ended {
            0 => String::new(),
            ended => format!(", {} of them ended", counted(ended, "warp")),
        };
        let thread = self.host_thread.map(|thread| format!("; launched by thread {thread}")).unwrap_or_default();
        let mut lines = vec![format!("{}: {resident}{ended}{thread}", self.launch())];
        let shown = if self.places.len() > MOST_PLACES + 1 { MOST_PLACES } else { self.places.len() };
        lines.extend(self.places.iter().take(shown).map(|place| format!("  {}", place.line())));
        if let Some(rest) = self.places.get(shown..).filter(|rest| !rest.is_empty()) {
            let threads: u64 = rest.iter().map(|place| place.threads).sum();
            lines.push(format!(
                "  and {} with {}",
                counted(rest.len() as u64, "more place"),
                counted(threads, "thread")
            ));
        }
        lines
    }
}

impl GpuPlace {
    pub fn line(&self) -> String {
        let one = self.warps == 1;
        let warps = counted(self.warps, "warp");
        let lanes = match self.threads_of_a_warp {
            [32, 32] => String::new(),
            [1, 1] if one => " (1 lane)".to_owned(),
            [fewest, most] if fewest == most && one => format!(" ({fewest} lanes)"),
            [fewest, most] if fewest == most => format!(" ({} each)", counted(u64::from(fewest), "lane")),
            [fewest, most] => format!(" ({fewest} to {most} lanes each)"),
        };
        let (verb, rest) = match self.doing {
            Doing::Loops => ("loop", ""),
            Doing::Stands => ("stand", ""),
            Doing::Sleeps => ("sleep", ""),
            Doing::WaitsForRegisters => ("wait", " for registers (setmaxnreg)"),
            Doing::WaitsAtGridBarrier => ("wait", " for the whole grid"),
            Doing::WaitsAtClusterBarrier => ("wait", " at the cluster's barrier"),
            Doing::WaitsAtBarrier => ("wait", " at the barrier"),
            Doing::WaitsForLanes if one => ("wait", " for other lanes of the warp"),
            Doing::WaitsForLanes => ("wait", " for other lanes of their warp"),
        };
        let does = format!("{verb}{}{rest} in", if one { "s" } else { "" });
        let innermost =
            self.frames.first().map_or_else(|| format!("{:#x}", self.offset), |frame| frame.text(Some(self.offset)));
        // The kernel's own line says most, and what is between least.
        let caller = match self.frames.as_slice() {
            [] | [_] => String::new(),
            [_, kernel] => format!(", called from {}", kernel.text(None)),
            [_, .., kernel] => format!(
                ", called through {} from {}",
                counted(self.frames.len() as u64 - 2, "function"),
                kernel.text(None)
            ),
        };
        let fault = self.fault.as_ref().map(|fault| format!("; exception: {}", fault.what)).unwrap_or_default();
        let kept = match self.blocks_kept_waiting {
            0 => String::new(),
            _ if self.doing == Doing::WaitsAtGridBarrier => String::new(),
            1 => format!("; a barrier of the block waits for {}", if one { "it" } else { "them" }),
            blocks => format!("; a barrier in each of {} waits for them", counted(blocks, "block")),
        };
        format!("{warps}{lanes} {does} {innermost}{caller}{fault}{kept}")
    }
}

impl GpuFrame {
    /// The function with its line: `inner_spin (spin.cu:11)`; without one, with the offset in it: `inner_spin+0x20`.
    fn text(&self, offset: Option<u64>) -> String {
        match (self.line_in_words(), offset) {
            (Some(line), _) => format!("{} ({line})", self.function),
            (None, Some(offset)) => format!("{}+{offset:#x}", self.function),
            (None, None) => self.function.clone(),
        }
    }
}

fn three([x, y, z]: [u32; 3]) -> String {
    format!("{x},{y},{z}")
}
