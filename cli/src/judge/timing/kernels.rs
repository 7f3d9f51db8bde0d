//! Which kernel a record means. The driver reuses the numbers of functions, and the recording says when.

use lazyguard_core::report::demangle;
use lazyguard_core::trace::read::StringTable;
use lazyguard_core::trace::{Kind, Record};
use lazyguard_core::Nanos;
use std::collections::HashMap;
use std::rc::Rc;

pub(super) type KernelId = u32;

#[derive(Default)]
pub(super) struct Kernels {
    /// For each function number, the kernels that it meant and from when on, the earliest first.
    meanings: HashMap<u32, Vec<(Nanos, KernelId)>>,
    names: Vec<Rc<str>>,
}

impl Kernels {
    pub fn of(texts: &StringTable) -> Self {
        let mut kernels = Self::default();
        let mut newest = None;
        for (number, at, function) in texts.functions() {
            let name = function.name.map_or_else(|| format!("function {:#x}", function.handle), demangle);
            let this = (number, function.handle, function.owner);
            // A kernel that is written twice is the same: its name became known in between.
            if newest.replace(this) == Some(this) {
                let last = kernels.names.last_mut().filter(|_| function.name.is_some());
                last.into_iter().for_each(|last| *last = name.as_str().into());
                continue;
            }
            let id = KernelId::try_from(kernels.names.len()).unwrap_or(KernelId::MAX);
            kernels.names.push(name.into());
            kernels.meanings.entry(number).or_default().push((at, id));
        }
        kernels
    }

    /// The kernel that a record is about. A preload is about none: its function is that of the call at whose occasion it was made.
    pub fn of_record(&self, record: &Record) -> Option<KernelId> {
        let meanings = self.meanings.get(&record.function).filter(|_| record.kind != Kind::Preload)?;
        // A kernel is written down at its first use, which may be a moment after the call was entered.
        let after = meanings.partition_point(|(from, _)| *from <= record.meant_at());
        meanings.get(after.saturating_sub(1)).map(|(_, id)| *id)
    }

    pub fn name(&self, id: KernelId) -> Rc<str> {
        self.names.get(id as usize).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Kernels {
        /// Kernels whose numbers count from 1.
        pub fn named(names: &[&str]) -> Self {
            let names: Vec<Rc<str>> = names.iter().map(|&name| name.into()).collect();
            let meanings = (0..names.len() as u32).map(|id| (id + 1, vec![(0, id)])).collect();
            Self { meanings, names }
        }
    }
}
