//! The typed content of a record, for readers: [`Record::payload`]. `raw` is for writers. Any words make some payload.

use super::layout::flag;
use super::raw::{Communication, Environment, HazardNumbers, Image, LaunchKey, Preload, RawPayload, ALONE_AT, LARGEST};
use super::record::{Kind, Record};
use crate::api::{Class, ComputeTime, ThreadActivity, ValueWait, ValueWrite};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    None,
    Launch(Launch),
    Wait(ValueWait),
    Write(ValueWrite),
    Event(u64),
    /// A copy or fill of memory, an allocation or a release: the destination, or 0; the bytes, or 0; the word that a fill repeats, if it is known.
    Memory {
        address: u64,
        bytes: u64,
        word: Option<u32>,
    },
    Image {
        owner: u64,
        image: Image,
    },
    Owner(u64),
    Graph(u64),
    HostFunction(u64),
    /// `submitted`: when the call that submitted it was entered.
    HostCall {
        function: u64,
        submitted: u64,
    },
    /// Queries of an event, or of a stream: then `event` is 0.
    Queries {
        count: u64,
        event: u64,
    },
    Preload(Preload),
    Hazard(HazardNumbers),
    /// The activity of a thread in no driver call; `None` once the thread is no longer there.
    Activity {
        thread: u32,
        doing: Option<ThreadActivity>,
    },
    Communication(Communication),
    /// The result says whether the stream is idle.
    StreamAnswer,
    EventComplete(u64),
    Holds {
        address: u64,
        value: u64,
        wide: bool,
        /// No other process can have that memory.
        own: bool,
    },
    /// The recent processor time of a thread in a call that loads code.
    Computes {
        thread: u32,
        time: ComputeTime,
    },
    /// As the process had it when it initialised the driver.
    Environment(Environment),
    Resident {
        launch: LaunchKey,
        blocks: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    pub grid: [u32; 3],
    pub block: [u16; 3],
    /// Not known of a launch that loaded on first use.
    pub shared_bytes: Option<u64>,
    /// Known only of a launch that loaded on first use.
    pub owner: Option<u64>,
}

impl Launch {
    pub fn blocks(&self) -> u64 {
        self.grid.iter().map(|&n| u64::from(n)).product()
    }

    pub fn threads(&self) -> u32 {
        u32::try_from(self.block.iter().map(|&n| u64::from(n)).product::<u64>()).unwrap_or(u32::MAX)
    }
}

impl Record {
    /// Address and length of the memory that a copy, a fill or a stream's write changes, unless the call was refused.
    pub fn written(&self) -> Option<(u64, u64)> {
        let written = match self.payload() {
            Payload::Write(write) => Some((write.address, if write.wide { 8 } else { 4 })),
            Payload::Memory { address, bytes, .. } if self.entry_point.class().fills() => Some((address, bytes)),
            _ => None,
        };
        written.filter(|(address, _)| *address != 0 && !self.is_refused())
    }

    pub fn payload(&self) -> Payload {
        let RawPayload { three, extent, detail } = self.raw;
        match self.kind {
            Kind::Call | Kind::ColdFunction | Kind::ColdModule => self.of_call(),
            Kind::Queries => Payload::Queries { count: extent, event: detail },
            Kind::Preload => Payload::Preload(Preload {
                loaded: extent & 0xffff_ffff,
                refused: extent >> 32 & 0xffff,
                left_out: extent >> 48,
                owner: detail,
            }),
            Kind::Hazard => Payload::Hazard(HazardNumbers {
                code: extent as u16,
                other_entry_point: (extent >> 16) as u16,
                marks: (extent >> 32) as u16,
                class: (extent >> 48 & 0xf) as u8,
                distance: three & LARGEST,
                other_stream: detail as u32,
                function_or_thread: (detail >> 32) as u32,
            }),
            Kind::HostBegins | Kind::HostEnds => Payload::HostCall { function: detail, submitted: extent },
            Kind::Activity => Payload::Activity { thread: detail as u32, doing: ThreadActivity::from_number(extent) },
            Kind::Communication => Payload::Communication(self.raw.about_communication()),
            Kind::Seen => match self.entry_point.class() {
                Class::StreamQuery => Payload::StreamAnswer,
                Class::EventQuery => Payload::EventComplete(detail),
                Class::WaitValue => {
                    let (wide, own) = (self.flags & flag::WIDE != 0, three & 1 != 0);
                    Payload::Holds { address: detail, value: extent, wide, own }
                }
                Class::ContextCreate => Payload::Environment(Environment {
                    launch_blocking: detail & 1 != 0,
                    connections: u32::try_from(extent).unwrap_or(0),
                }),
                Class::ModuleLoad => Payload::Computes {
                    thread: detail as u32,
                    time: ComputeTime {
                        nanos: extent,
                        within_nanos: three & LARGEST,
                        alone: detail >> ALONE_AT & 1 != 0,
                    },
                },
                Class::Launch => Payload::Resident { launch: self.launch_key(), blocks: extent },
                _ => Payload::None,
            },
        }
    }

    fn of_call(&self) -> Payload {
        let RawPayload { three, extent, detail } = self.raw;
        let cold = self.kind != Kind::Call;
        match self.entry_point.class() {
            Class::Launch => Payload::Launch(Launch {
                grid: [extent as u32, (extent >> 32) as u32 & 0xffff, (extent >> 48) as u32],
                block: self.block(),
                shared_bytes: (!cold).then_some(detail),
                owner: cold.then_some(detail),
            }),
            Class::WaitValue | Class::WriteValue | Class::BatchMemOp if detail != 0 => {
                let (at, address, value) = (self.entered, detail, extent);
                let wide = self.flags & flag::WIDE != 0;
                if self.flags & flag::WAIT != 0 {
                    Payload::Wait(ValueWait { at, address, value, flags: three as u32 & 0xffff, wide })
                } else {
                    Payload::Write(ValueWrite { at, address, value, stream: self.stream, wide })
                }
            }
            Class::EventCreate
            | Class::EventRecord
            | Class::EventDestroy
            | Class::EventSynchronize
            | Class::EventQuery
            | Class::StreamWaitEvent => Payload::Event(detail),
            Class::Copy
            | Class::CopyAsync
            | Class::Set
            | Class::SetAsync
            | Class::Allocate
            | Class::AllocateAsync
            | Class::Free
            | Class::FreeAsync => Payload::Memory { address: detail, bytes: extent, word: self.raw.filled_with() },
            Class::ModuleLoad | Class::LibraryLoad => Payload::Image { owner: detail, image: self.raw.loaded_image() },
            Class::ModuleUnload | Class::LibraryUnload | Class::LibraryModule => Payload::Owner(detail),
            Class::HostFunction => Payload::HostFunction(detail),
            Class::GraphLaunch | Class::GraphInstantiate if detail != 0 => Payload::Graph(detail),
            _ if cold => Payload::Owner(detail),
            _ => Payload::None,
        }
    }

    fn block(&self) -> [u16; 3] {
        [self.raw.three as u16, (self.raw.three >> 16) as u16, (self.raw.three >> 32) as u16]
    }

    pub fn launch_key(&self) -> LaunchKey {
        LaunchKey { function: self.function, block: self.block(), shared_or_owner: self.raw.detail }
    }

    /// The module or library that a call loads or uses.
    pub fn owner(&self) -> Option<u64> {
        match self.payload() {
            Payload::Launch(launch) => launch.owner,
            Payload::Image { owner, .. } | Payload::Owner(owner) => Some(owner),
            Payload::Preload(preload) => Some(preload.owner),
            _ => None,
        }
    }

    pub fn event(&self) -> Option<u64> {
        match self.payload() {
            Payload::Event(event) | Payload::Queries { event, .. } if event != 0 => Some(event),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::image;
    use super::*;
    use crate::api::EntryPoint;

    fn record(symbol: &str, kind: Kind, raw: RawPayload) -> Record {
        Record { kind, raw, ..Record::of(EntryPoint::by_symbol(symbol.as_bytes()).unwrap()) }
    }

    #[test]
    fn what_a_writer_packs_a_reader_gets() {
        let key = LaunchKey { function: 0, block: [32, 2, 1], shared_or_owner: 99 };
        let (launch, cut) = RawPayload::launch([7, 8, 9], [32, 2, 1], 99);
        assert!(!cut);
        let numbers = HazardNumbers {
            code: 205,
            other_entry_point: 54,
            marks: 9,
            class: 6,
            distance: LARGEST,
            other_stream: 3,
            function_or_thread: u32::MAX,
        };
        let preload = Preload { loaded: 12, refused: 3, left_out: 5, owner: 0xb1 };
        let warm = Launch { grid: [7, 8, 9], block: [32, 2, 1], shared_bytes: Some(99), owner: None };
        let image = Image::of(image::PTX | image::PRINTS);
        let collective = Communication {
            communicator: 3,
            number: u32::MAX,
            count: 1 << 40,
            data_type: 7,
            operator: Some(0),
            root: None,
        };
        let time = ComputeTime { nanos: 6, within_nanos: LARGEST, alone: true };
        let environment = Environment { launch_blocking: true, connections: 1 };
        let send = Communication { operator: None, root: Some(1023), ..collective };
        for (symbol, kind, raw, expect) in [
            ("cuLaunchKernel", Kind::Call, launch, Payload::Launch(warm)),
            (
                "cuLaunchKernel",
                Kind::ColdModule,
                launch.with_owner(0xb1),
                Payload::Launch(Launch { shared_bytes: None, owner: Some(0xb1), ..warm }),
            ),
            ("cuLaunchKernel", Kind::Seen, RawPayload::resident(key, 5), Payload::Resident { launch: key, blocks: 5 }),
            ("cuModuleLoad", Kind::Seen, RawPayload::computes(77, time), Payload::Computes { thread: 77, time }),
            ("cuCtxCreate_v2", Kind::Seen, RawPayload::environment(environment), Payload::Environment(environment)),
            ("cuLaunchKernel", Kind::Hazard, RawPayload::hazard(numbers), Payload::Hazard(numbers)),
            ("cuMemcpyHtoD_v2", Kind::Preload, RawPayload::preload(preload), Payload::Preload(preload)),
            ("cuFuncLoad", Kind::ColdFunction, RawPayload::about(0xb1), Payload::Owner(0xb1)),
            ("cuModuleLoadData", Kind::ColdModule, RawPayload::image(image).with_owner(5), {
                Payload::Image { owner: 5, image }
            }),
            ("cuEventQuery", Kind::Queries, RawPayload::about(0xe).with_queries(1), {
                Payload::Queries { count: 1, event: 0xe }
            }),
            (
                "cuMemAlloc_v2",
                Kind::Call,
                RawPayload::memory(1, 2),
                Payload::Memory { address: 1, bytes: 2, word: None },
            ),
            (
                "cuMemsetD32Async",
                Kind::Call,
                RawPayload::fill(1, 2, u32::MAX),
                Payload::Memory { address: 1, bytes: 2, word: Some(u32::MAX) },
            ),
            ("cuStreamWriteValue32_v2", Kind::Call, RawPayload::memory_operation(8, 7, 1 << 20), {
                Payload::Write(ValueWrite { at: 0, address: 8, value: 7, stream: 0, wide: false })
            }),
            ("cuCtxSynchronize", Kind::Call, RawPayload::about(1), Payload::None),
            ("ncclAllReduce", Kind::Communication, RawPayload::communication(collective), {
                Payload::Communication(collective)
            }),
            ("ncclSend", Kind::Communication, RawPayload::communication(send), Payload::Communication(send)),
        ] {
            assert_eq!(record(symbol, kind, raw).payload(), expect, "{symbol} {kind:?}");
        }
        assert!(image.needs_compiler() && image.prints() && image.is_known());
    }

    #[test]
    fn a_threads_activity_is_the_same_through_its_record() {
        for doing in [None, Some(ThreadActivity::Running), Some(ThreadActivity::Waiting)] {
            let raw = RawPayload::activity(77, doing);
            assert_eq!(record("cuInit", Kind::Activity, raw).payload(), Payload::Activity { thread: 77, doing });
        }
    }
}
