//! Reads core dumps of GPUs: where the threads of each kernel stood when NVIDIA's driver wrote the file.
//!
//! `tables` has the layout of the file, `image` the functions of the device code in it, `lines` their line tables, `sass` the few instructions that
//! say what a thread waits for, `fold` the counting, `text` the sentences, `beside` what a core adds to a hang's verdicts.
//!
//! The layout is that of `cudacoredump.h`, NVIDIA's public description (in the open sources of cuda-gdb), held against cores of an H200 by driver
//! 580. Each table says how long its entries are; entries that a newer driver has made longer are read as far as they are known.
//!
//! The reader is total. Any bytes give a core or a [`Refused`], in bounded time and memory; what is beyond a bound is counted in
//! [`GpuCore::defects`]. Memory of the device, which a core may hold gigabytes of, is never read.
//!
//! Must not: be used by the library. `scripts/check-library` looks that nothing of it is in `liblazyguard.so`.

mod beside;
mod fold;
mod image;
mod lines;
mod names;
mod sass;
mod tables;
#[cfg(test)]
mod tests;
mod text;

pub use tables::{read, Refused};

use serde::Serialize;

/// What a GPU core dump says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GpuCore {
    /// When the driver wrote it, in seconds since 1970; null in files of drivers before 565.
    pub written_unix_s: Option<u32>,
    /// The version of the driver's kernel module, such as `580.159`; null in files of drivers before 565.
    pub driver: Option<String>,
    /// The version of CUDA that the driver has, such as `13.0`; null in files of drivers before 565.
    pub cuda: Option<String>,
    /// The devices of the process.
    pub devices: Vec<GpuDevice>,
    /// What of the file could not be read.
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
    /// How many multiprocessors it has.
    pub multiprocessors: u32,
    /// How many warps can be resident on it.
    pub warps_most: u64,
    /// How many are.
    pub warps: u64,
    /// The exceptions of its multiprocessors: also of warps that have ended since.
    pub faults: Vec<GpuFault>,
    /// The kernels that it was running, or was to run.
    pub kernels: Vec<GpuKernel>,
}

/// A kernel in a GPU core dump: one launch of it, a grid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GpuKernel {
    /// Its name as in the source, without parameters; or what is known instead.
    pub name: String,
    /// Its name in the device code; null where that is not in the file.
    pub symbol: Option<String>,
    /// The driver's number of this launch.
    pub grid_id: u64,
    /// What the driver says of it.
    pub status: GridStatus,
    /// The dimensions of the grid, in blocks: x, y, z.
    pub grid: [u32; 3],
    /// The dimensions of a block, in threads: x, y, z.
    pub block: [u32; 3],
    /// The dimensions of a cluster, in blocks: x, y, z; null where it has none, or the driver is older than 525.
    pub cluster: Option<[u32; 3]>,
    /// How many blocks the grid has; null where the driver names fewer than there are, as of cooperative launches.
    pub blocks: Option<u64>,
    /// How many of them were on the device: these have begun and have not ended.
    pub blocks_resident: u64,
    /// How many of them have not begun: those behind the last that is resident, as blocks begin in the order of their numbers; null where that is not
    /// known.
    pub blocks_not_begun: Option<u64>,
    /// How many warps these blocks still had.
    pub warps: u64,
    /// How many warps of these blocks had ended.
    pub warps_ended: u64,
    /// The thread of the process that launched it; null where the driver does not say.
    pub host_thread: Option<u32>,
    /// The number of its context, as the driver's debugging interface has it.
    pub context: u64,
    /// Where its threads stand: first faults, then what keeps a barrier waiting, then the rest.
    pub places: Vec<GpuPlace>,
}

/// What a driver says of a grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GridStatus {
    /// It was launched, and none of it runs yet.
    Pending,
    /// It runs.
    Active,
    /// It waits for a grid that it launched itself.
    Sleeping,
    /// It has ended.
    Terminated,
    /// Something that is not known here.
    #[default]
    Unknown,
}

/// What a thread does at a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// It is in a loop: an instruction behind it branches to one before it.
    Loops,
    /// It executes anything else.
    #[default]
    Stands,
    /// It sleeps (`__nanosleep`).
    Sleeps,
    /// It waits for the whole grid, in a function of cooperative groups.
    WaitsAtGridBarrier,
    /// It waits at a barrier of its cluster.
    WaitsAtClusterBarrier,
    /// It waits at a barrier of its block, such as `__syncthreads`.
    WaitsAtBarrier,
    /// It waits for other threads of its warp.
    WaitsForLanes,
}

/// A place in device code at which threads of a kernel stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GpuPlace {
    /// What the threads do there.
    pub doing: Doing,
    /// How many warps have threads there. A warp whose threads have diverged is at several places.
    pub warps: u64,
    /// How many threads are there.
    pub threads: u64,
    /// How many of these are the ones that their warp executes; the others of the warp wait until it executes them.
    pub threads_active: u64,
    /// The fewest and the most threads of one warp that are there.
    pub threads_of_a_warp: [u32; 2],
    /// How many blocks have threads there.
    pub blocks: u64,
    /// The address of the barrier at which they wait.
    pub barrier: Option<u64>,
    /// How many of these blocks have other threads that wait at a barrier, to which the threads here have not come.
    pub blocks_kept_waiting: u64,
    /// The block of one of the threads: x, y, z.
    pub first_block: [u32; 3],
    /// That thread in its block: x, y, z.
    pub first_thread: [u32; 3],
    /// The addresses of the next instructions of these threads; at most 16.
    pub addresses: Vec<u64>,
    /// The function in the device code in which that lies, mangled; null where it is not known.
    pub symbol: Option<String>,
    /// The offset in this function: of an address; of the barrier, at one; of where the loop begins, in one of which the lines are not known.
    pub offset: u64,
    /// The functions with their lines, the innermost first; of threads at a barrier of their block, those of the barrier.
    pub frames: Vec<GpuFrame>,
    /// The exception of these threads.
    pub fault: Option<GpuFault>,
}

/// A function on the stack of a device thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct GpuFrame {
    /// Its name as in the source, without parameters.
    pub function: String,
    /// The source file; null where the program was compiled without `-lineinfo`.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
    /// Whether it was put in place of a call in the next frame.
    pub inlined: bool,
}

/// An exception on the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GpuFault {
    /// Its number in NVIDIA's debugging interface.
    pub code: u32,
    /// What it means.
    pub what: String,
    /// The address of the instruction that made it; null where the driver does not know.
    pub address: Option<u64>,
    /// The functions there with their lines, the innermost first; empty in a place, which has them itself.
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
