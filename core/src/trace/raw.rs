//! The words of a record whose meaning depends on its kind and call. A launch inlines what it needs.

use super::layout::image;
use crate::api::{ComputeTime, ThreadActivity};

/// Three numbers of 16 bits, the first in the lowest; the extent; the detail. `docs/TRACE_FORMAT.md` has the bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RawPayload {
    pub(super) three: u64,
    pub(super) extent: u64,
    pub(super) detail: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    pub launch_blocking: bool,
    /// `CUDA_DEVICE_MAX_CONNECTIONS`, or 0.
    pub connections: u32,
}

/// A launch's function and sizes, which decide how many blocks the device holds at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaunchKey {
    pub function: u32,
    pub block: [u16; 3],
    /// Bytes of dynamic shared memory, or the owner's handle where the launch loaded its function.
    pub shared_or_owner: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preload {
    pub loaded: u64,
    pub refused: u64,
    pub left_out: u64,
    /// The module or library, or 0 of several.
    pub owner: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HazardNumbers {
    pub code: u16,
    /// Its id, or 0.
    pub other_entry_point: u16,
    pub marks: u16,
    pub class: u8,
    /// The time from the other operation's submission to the record, plus 1; 0 where unknown.
    pub distance: u64,
    pub other_stream: u32,
    /// The other operation's function; or the thread of the earlier of two calls.
    pub function_or_thread: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Image(u64);

impl Image {
    pub const fn of(bits: u64) -> Self {
        Self(bits & 0xffff)
    }

    pub const fn is_known(self) -> bool {
        self.0 != 0
    }

    pub const fn needs_compiler(self) -> bool {
        matches!(self.0 & 0xff, image::PTX | image::FAT_BINARY_OF_PTX)
    }

    pub const fn prints(self) -> bool {
        self.0 & image::PRINTS != 0
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Communication {
    /// Its number, or 0.
    pub communicator: u32,
    /// Counted from 1 among the communicator's collectives, or its sends and receives; 0 of other calls.
    pub number: u32,
    pub count: u64,
    pub data_type: u16,
    pub operator: Option<u16>,
    /// The root, or the peer of a send or receive.
    pub root: Option<u16>,
}

/// In place of an operator or a root.
const NO_SUCH: u32 = 0xffff;

/// The bit of a fill whose word is known: the first one of the third short number.
const WORD_IS_KNOWN_AT: u32 = 32;

/// The bit of a thread's processor time behind the thread's id.
pub(super) const ALONE_AT: u32 = 32;

/// The largest number that fits into the three short numbers together.
pub(super) const LARGEST: u64 = (1 << 48) - 1;

/// The first has `first_bits` bits, the others 16.
#[inline(always)]
const fn packed(three: [u32; 3], first_bits: u32) -> u64 {
    three[0] as u64 | ((three[1] | three[2] << 16) as u64) << first_bits
}

const fn short(number: u32) -> u32 {
    capped(number as u64, 0xffff) as u32
}

const fn capped(number: u64, largest: u64) -> u64 {
    [number, largest][(number > largest) as usize]
}

impl RawPayload {
    /// Returns also whether a number did not fit and was cut.
    #[inline(always)]
    pub const fn launch(grid: [u32; 3], block: [u32; 3], shared_bytes: u32) -> (Self, bool) {
        if Self::launch_fits(grid, block) {
            return (Self::launch_that_fits(grid, block, shared_bytes), false);
        }
        let grid = [grid[0], short(grid[1]), short(grid[2])];
        (Self::launch_that_fits(grid, [short(block[0]), short(block[1]), short(block[2])], shared_bytes), true)
    }

    #[inline(always)]
    pub const fn launch_fits(grid: [u32; 3], block: [u32; 3]) -> bool {
        (grid[1] | grid[2] | block[0] | block[1] | block[2]) <= 0xffff
    }

    #[inline(always)]
    pub const fn launch_that_fits(grid: [u32; 3], block: [u32; 3], shared_bytes: u32) -> Self {
        Self { three: packed(block, 16), extent: packed(grid, 32), detail: shared_bytes as u64 }
    }

    pub const fn memory_operation(address: u64, value: u64, driver_flags: u32) -> Self {
        Self { three: (driver_flags & 0xffff) as u64, extent: value, detail: address }
    }

    /// `bytes`: how many the call is about, or the value that was seen there.
    pub const fn memory(address: u64, bytes: u64) -> Self {
        Self { three: 0, extent: bytes, detail: address }
    }

    /// All of these bytes are filled with this word.
    pub const fn fill(address: u64, bytes: u64, word: u32) -> Self {
        Self { three: word as u64 | 1 << WORD_IS_KNOWN_AT, ..Self::memory(address, bytes) }
    }

    pub(super) fn filled_with(&self) -> Option<u32> {
        (self.three >> WORD_IS_KNOWN_AT & 1 != 0).then_some(self.three as u32)
    }

    /// An event, a module or library, or a submitted host function.
    pub const fn about(handle: u64) -> Self {
        Self { three: 0, extent: 0, detail: handle }
    }

    /// The image has no handle yet.
    pub const fn image(image: Image) -> Self {
        Self { three: image.0, extent: 0, detail: 0 }
    }

    pub const fn host_call(function: u64, submitted: u64) -> Self {
        Self { three: 0, extent: submitted, detail: function }
    }

    pub const fn preload(preload: Preload) -> Self {
        let Preload { loaded, refused, left_out, owner } = preload;
        let counts = capped(loaded, 0xffff_ffff) | capped(refused, 0xffff) << 32 | capped(left_out, 0xffff) << 48;
        Self { three: 0, extent: counts, detail: owner }
    }

    pub fn activity(thread: u32, doing: Option<ThreadActivity>) -> Self {
        Self { three: 0, extent: doing.map_or(0, ThreadActivity::number), detail: u64::from(thread) }
    }

    pub const fn computes(thread: u32, time: ComputeTime) -> Self {
        let detail = thread as u64 | (time.alone as u64) << ALONE_AT;
        Self { three: capped(time.within_nanos, LARGEST), extent: time.nanos, detail }
    }

    pub fn environment(environment: Environment) -> Self {
        let Environment { launch_blocking, connections } = environment;
        Self { extent: connections.into(), detail: launch_blocking.into(), ..Self::default() }
    }

    pub fn resident(launch: LaunchKey, blocks: u64) -> Self {
        Self { three: packed(launch.block.map(u32::from), 16), extent: blocks, detail: launch.shared_or_owner }
    }

    pub const fn hazard(numbers: HazardNumbers) -> Self {
        let HazardNumbers { code, other_entry_point, marks, class, distance, other_stream, function_or_thread } =
            numbers;
        Self {
            three: capped(distance, LARGEST),
            extent: code as u64 | (other_entry_point as u64) << 16 | (marks as u64) << 32 | (class as u64 & 0xf) << 48,
            detail: other_stream as u64 | (function_or_thread as u64) << 32,
        }
    }

    pub fn communication(about: Communication) -> Self {
        let Communication { communicator, number, count, data_type, operator, root } = about;
        let or_none = |number: Option<u16>| number.map_or(NO_SUCH, u32::from);
        Self {
            three: packed([u32::from(data_type), or_none(operator), or_none(root)], 16),
            extent: count,
            detail: u64::from(number) | u64::from(communicator) << 32,
        }
    }

    pub(super) fn about_communication(&self) -> Communication {
        let some = |number: u64| (number as u32 & NO_SUCH != NO_SUCH).then_some(number as u16);
        Communication {
            communicator: (self.detail >> 32) as u32,
            number: self.detail as u32,
            count: self.extent,
            data_type: self.three as u16,
            operator: some(self.three >> 16),
            root: some(self.three >> 32),
        }
    }

    /// `count`: how many queries the call stands for, or 0.
    #[inline(always)]
    pub const fn with_queries(self, count: u64) -> Self {
        Self { extent: self.extent | count, ..self }
    }

    /// `owner`: the module or library that the call is about, or 0.
    #[inline(always)]
    pub const fn with_owner(self, owner: u64) -> Self {
        Self { detail: if owner != 0 { owner } else { self.detail }, ..self }
    }

    pub const fn loaded_image(&self) -> Image {
        Image::of(self.three)
    }
}
