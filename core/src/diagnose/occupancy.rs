//! How many blocks of a kernel a device holds at once, from numbers that the driver answers at any time: its own occupancy functions block
//! while a thread is blocked in a load.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Device {
    pub multiprocessors: u32,
    pub threads: u32,
    pub blocks: u32,
    pub registers: u32,
    pub shared_bytes: u32,
    /// Added to each block's own shared memory.
    pub reserved_shared_bytes: u32,
    pub warp: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub threads: u32,
    pub registers: u32,
    pub shared_bytes: u64,
}

/// Registers are allocated to warps in lots of this size.
const REGISTER_LOT: u32 = 256;

/// `None` where a number is missing.
pub fn resident_blocks(device: Device, needs: Needs) -> Option<u64> {
    let missing = [device.multiprocessors, device.threads, device.blocks, device.warp, needs.threads].contains(&0);
    if missing {
        return None;
    }
    let warps = needs.threads.div_ceil(device.warp);
    let by_threads = device.threads / device.warp / warps;
    let registers = needs.registers.saturating_mul(device.warp).next_multiple_of(REGISTER_LOT);
    let by_registers = match (device.registers, needs.registers) {
        (0, _) | (_, 0) => u32::MAX,
        (all, _) => all / registers / warps,
    };
    let shared = needs.shared_bytes.saturating_add(u64::from(device.reserved_shared_bytes));
    let by_shared = match (device.shared_bytes, shared) {
        (0, _) | (_, 0) => u32::MAX,
        (all, shared) => u32::try_from(u64::from(all) / shared).unwrap_or(u32::MAX),
    };
    let blocks = device.blocks.min(by_threads).min(by_registers).min(by_shared);
    Some(u64::from(blocks) * u64::from(device.multiprocessors))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An H200, as its driver describes it.
    const H200: Device = Device {
        multiprocessors: 132,
        threads: 2048,
        blocks: 32,
        registers: 65536,
        shared_bytes: 233_472,
        reserved_shared_bytes: 1024,
        warp: 32,
    };

    fn blocks(threads: u32, registers: u32, shared_bytes: u64) -> Option<u64> {
        resident_blocks(H200, Needs { threads, registers, shared_bytes }).map(|blocks| blocks / 132)
    }

    #[test]
    fn the_scarcest_thing_decides() {
        assert_eq!(blocks(64, 4, 0), Some(32), "blocks");
        assert_eq!(blocks(1024, 16, 0), Some(2), "threads");
        assert_eq!(blocks(33, 16, 0), Some(32), "a warp more than one");
        assert_eq!(blocks(256, 255, 0), Some(1), "registers");
        assert_eq!(blocks(256, 64, 0), Some(4), "registers");
        assert_eq!(blocks(128, 16, 100 << 10), Some(2), "shared memory");
        assert_eq!(blocks(128, 16, 1 << 40), Some(0), "more than there is");
    }

    #[test]
    fn without_the_numbers_nothing_is_said() {
        assert_eq!(blocks(0, 4, 0), None);
        assert_eq!(resident_blocks(Device::default(), Needs { threads: 32, ..Needs::default() }), None);
        let silent = Device { registers: 0, shared_bytes: 0, reserved_shared_bytes: 0, ..H200 };
        assert_eq!(resident_blocks(silent, Needs { threads: 64, ..Needs::default() }), Some(32 * 132));
    }
}
