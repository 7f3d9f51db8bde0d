//! Who wrote last to memory that a kernel polls: a copy, a fill or a stream's write, as far as the recording has it.
//!
//! Must not: name a write that the driver refused, or say that nothing wrote: a kernel's own writes are in no recording.

use crate::folder::Opened;
use crate::stacks::Symbolizer;
use lazyguard_core::gpu_core::{GpuCore, GpuWait, WaitFor};
use lazyguard_core::trace::read::Entry;

const NONE: &str = "no copy, fill or stream write to it is recorded";

/// Adds the newest recorded write to each wait on memory. A recording that cannot be read to its end says nothing.
pub(super) fn tell(core: &mut GpuCore, opened: &Opened) {
    let kernels = core.devices.iter_mut().flat_map(|device| &mut device.kernels);
    let polls = |wait: &&mut GpuWait| wait.wait == WaitFor::Memory && wait.address.is_some();
    let waits = kernels.flat_map(|kernel| &mut kernel.waits).filter(polls);
    let mut waits: Vec<_> = waits.map(|wait| (wait, None)).collect();
    if waits.is_empty() {
        return;
    }
    let read = opened.each_in_order(|entry| {
        if let Some((begin, bytes)) = entry.record.written() {
            let is_there = |wait: &GpuWait| wait.address.is_some_and(|at| at.wrapping_sub(begin) < bytes);
            waits.iter_mut().filter(|(wait, _)| is_there(wait)).for_each(|(_, last)| *last = Some(*entry));
        }
        Ok(())
    });
    let callers = opened.callers();
    for (wait, last) in waits.into_iter().filter(|_| read.is_ok()) {
        wait.written = Some(last.map_or_else(|| NONE.to_owned(), |entry| in_words(&entry, &callers)));
    }
}

fn in_words(entry: &Entry, callers: &Symbolizer) -> String {
    let record = &entry.record;
    let from = callers.frames(record.caller).first().map(|frame| format!(", at {}", frame.short())).unwrap_or_default();
    let at = record.entered as f64 / 1e9;
    format!("{} wrote there last, after {at:.3} s{from}", record.entry_point.symbol())
}
