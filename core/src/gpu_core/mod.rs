//! Reads core dumps of GPUs: where the threads of each kernel stood when NVIDIA's driver wrote the file.
//!
//! `tables` has the layout of the file, `memory` registers and shared memory, `image` the functions of the device code, `lines`
//! their line tables, `sass` and `sync` the instructions that say what a thread waits for, `fold` the counting, `point` what is known of an
//! instruction, `places` the points that read the same, `text` the sentences, `beside` what a core adds to a hang's verdicts. `warps`, `sites`, `flow`,
//! `mbarrier`, `states`, `parties`, `waits` and `wait` say who waits for whom inside a kernel.
//!
//! The layout is that of `cudacoredump.h`, NVIDIA's public description (in the open sources of cuda-gdb), held against cores of an H200 by driver
//! 580. Each table says how long its entries are; entries that a newer driver has made longer are read as far as they are known.
//!
//! The reader is total. Any bytes give a core or a reason why not, in bounded time and memory; what is beyond a bound is counted in
//! [`GpuCore::defects`]. A core may hold gigabytes of device memory; the reader reads single words of shared memory.
//!
//! Must not: be used by the library. `scripts/check-library` looks that nothing of it is in `liblazyguard.so`.

mod beside;
mod flow;
mod fold;
mod image;
#[cfg(test)]
mod inside_tests;
mod lines;
mod mbarrier;
mod memory;
mod names;
mod parties;
mod places;
mod point;
mod sass;
mod sites;
mod states;
mod sync;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod wait;
mod waits;
mod warps;

pub use tables::read;
pub use wait::{GpuParty, GpuWait, WaitFor};

use serde::Serialize;

/// The content of a GPU core dump.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GpuCore {
    /// When the driver wrote it; null before driver 565.
    pub written_unix_s: Option<u32>,
    /// The kernel module's version, such as `580.159`; null before driver 565.
    pub driver: Option<String>,
    /// The driver's CUDA version, such as `13.0`; null before driver 565.
    pub cuda: Option<String>,
    /// The devices of the process.
    pub devices: Vec<GpuDevice>,
    /// The unreadable parts.
    pub defects: Vec<String>,
}

/// A device in a GPU core dump.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GpuDevice {
    /// Its number in the process.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The instruction set, such as `sm_90`.
    pub target: String,
    /// The number of its bus.
    pub pci_bus: u32,
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// The highest number of resident warps.
    pub warps_most: u64,
    /// How many are.
    pub warps: u64,
    /// Waits inside kernels: not read.
    pub waits_unread: bool,
    /// Exceptions, also of ended warps.
    pub faults: Vec<GpuFault>,
    /// Running and pending kernels.
    pub kernels: Vec<GpuKernel>,
}

/// A grid in a GPU core dump.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GpuKernel {
    /// The source name without parameters.
    pub name: String,
    /// The name in device code.
    pub symbol: Option<String>,
    /// The driver's launch number.
    pub grid_id: u64,
    /// The driver's status.
    pub status: GridStatus,
    /// Blocks: x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block: x, y, z.
    pub block: [u32; 3],
    /// Blocks of a cluster: x, y, z.
    pub cluster: Option<[u32; 3]>,
    /// Null where the driver names fewer, as for cooperative launches.
    pub blocks: Option<u64>,
    /// Begun and unended.
    pub blocks_resident: u64,
    /// Behind the last resident one.
    pub blocks_not_begun: Option<u64>,
    /// Warps of resident blocks.
    pub warps: u64,
    /// Their ended warps.
    pub warps_ended: u64,
    /// The launching thread.
    pub host_thread: Option<u32>,
    /// The debugger's number of the context.
    pub context: u64,
    /// Faults first, then threads that keep a barrier waiting.
    pub places: Vec<GpuPlace>,
    /// Waits inside the kernel.
    pub waits: Vec<GpuWait>,
}

/// A grid's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GridStatus {
    /// Launched, not begun.
    Pending,
    /// It runs.
    Active,
    /// It waits for a grid that it launched.
    Sleeping,
    /// It has ended.
    Terminated,
    /// Unknown to this build.
    #[default]
    Unknown,
}

/// A device thread's activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// It is in a loop.
    Loops,
    /// It executes anything else.
    #[default]
    Stands,
    /// It sleeps (`__nanosleep`).
    Sleeps,
    /// It waits for registers that other warps of its block give back (`setmaxnreg`).
    WaitsForRegisters,
    /// It waits for the whole grid.
    WaitsAtGridBarrier,
    /// It waits at its cluster's barrier.
    WaitsAtClusterBarrier,
    /// It waits at its block's barrier.
    WaitsAtBarrier,
    /// It waits for its warp.
    WaitsForLanes,
}

/// Threads of a kernel at one position in device code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GpuPlace {
    /// Their activity.
    pub doing: Doing,
    /// A diverged warp counts at several places.
    pub warps: u64,
    /// Threads there.
    pub threads: u64,
    /// Those that their warp executes.
    pub threads_active: u64,
    /// The fewest and most.
    pub threads_of_a_warp: [u32; 2],
    /// Their blocks.
    pub blocks: u64,
    /// The barrier's address.
    pub barrier: Option<u64>,
    /// Blocks whose barrier waits for these threads.
    pub blocks_kept_waiting: u64,
    /// One thread's block: x, y, z.
    pub first_block: [u32; 3],
    /// That thread: x, y, z.
    pub first_thread: [u32; 3],
    /// Next instructions; at most 16.
    pub addresses: Vec<u64>,
    /// The device function, mangled.
    pub symbol: Option<String>,
    /// In this function: of the address, the barrier or the loop.
    pub offset: u64,
    /// The innermost first; at a block's barrier, the barrier's.
    pub frames: Vec<GpuFrame>,
    /// Their exception.
    pub fault: Option<GpuFault>,
}

/// A device function's frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct GpuFrame {
    /// The source name, without parameters.
    pub function: String,
    /// Null without `-lineinfo`.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
    /// Whether it was inlined into the next frame.
    pub inlined: bool,
}

/// An exception on the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GpuFault {
    /// NVIDIA's debugger number.
    pub code: u32,
    /// Its meaning.
    pub what: String,
    /// The faulting instruction.
    pub address: Option<u64>,
    /// The innermost first; empty inside a place.
    pub frames: Vec<GpuFrame>,
}

impl GpuFault {
    fn new(code: u32, address: Option<u64>) -> Self {
        Self { code, what: exception(code), address, frames: Vec::new() }
    }
}

/// The meaning of an exception's number: `CUDBGException_t` of `cudadebugger.h`.
fn exception(code: u32) -> String {
    let known = match code {
        1 => "illegal address, of a thread",
        2 => "stack overflow, of a thread",
        3 => "hardware stack overflow",
        4 => "illegal instruction",
        5 => "address out of range",
        6 => "misaligned address",
        7 => "invalid address space",
        8 => "invalid program counter",
        9 => "hardware stack overflow, of a warp",
        10 => "illegal address, somewhere on the device",
        11 => "misaligned address, of a thread",
        12 => "assertion failed",
        13 => "failed system call",
        14 => "illegal address",
        15 => "system-wide atomic operation on memory that cannot migrate",
        16 => "invalid system-wide atomic operation",
        17 => "address out of the cluster's range",
        18 => "a block of the cluster is not present",
        19 => "overwritten stack canary",
        20 => "refused access to tensor memory",
        21 => "leaked tensor memory",
        22 => "call that needs a newer driver",
        23 => "misaligned program counter",
        24 => "program counter out of range",
        25 => "misaligned register",
        26 => "illegal encoding of an instruction",
        27 => "illegal parameter of an instruction",
        28 => "register out of range",
        29 => "invalid constant address",
        30 => "fault of the memory management unit",
        31 => "too many arrivals at a memory barrier",
        32 => "uncorrectable error in the cluster's memory",
        33 => "overflow of the interface's stack",
        _ => return format!("exception {code}"),
    };
    known.to_owned()
}
