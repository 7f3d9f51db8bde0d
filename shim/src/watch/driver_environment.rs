//! `CUDA_LAUNCH_BLOCKING` and `CUDA_DEVICE_MAX_CONNECTIONS` decide what the driver's calls wait for. The driver reads them in `cuInit`; the guard reads them
//! on the same thread, as that call returns: the program may have set them itself, and may change them later.

use crate::runtime::{door, environment};
use lazyguard_core::api::{Class, EntryPoint};
use lazyguard_core::state::ThreadSlot;
use lazyguard_core::trace::{Environment, Kind, Lane, RawPayload, Record};
use lazyguard_core::Nanos;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

static LAUNCH_BLOCKING: AtomicBool = AtomicBool::new(false);
static CONNECTIONS: AtomicU32 = AtomicU32::new(0);

pub fn read() {
    door::inside(|| {
        LAUNCH_BLOCKING.store(number("CUDA_LAUNCH_BLOCKING") != 0, Ordering::Relaxed);
        CONNECTIONS.store(number("CUDA_DEVICE_MAX_CONNECTIONS"), Ordering::Relaxed);
    });
}

/// A diagnosis needs the record.
pub fn note(slot: &ThreadSlot, at: Nanos) {
    let environment = Environment {
        launch_blocking: LAUNCH_BLOCKING.load(Ordering::Relaxed),
        connections: CONNECTIONS.load(Ordering::Relaxed),
    };
    if environment != Environment::default() {
        let entry_point = EntryPoint::of_class(Class::ContextCreate);
        let raw = RawPayload::environment(environment);
        let record = Record { kind: Kind::Seen, entered: at, returned: at, raw, ..Record::of(entry_point) };
        slot.push(&record, Lane::RareEvents);
    }
}

fn number(name: &str) -> u32 {
    environment::present_text(name).and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}
