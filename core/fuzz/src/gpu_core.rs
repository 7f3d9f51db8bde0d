//! Any bytes, read as a core dump of a GPU, as the device code in one, and as the code, registers and shared memory of a kernel that waits inside itself.

#![no_main]

use lazyguard_core::gpu_core::{read, GpuCore};

/// A core of an H200 with one image, of which a warp's threads are in two functions.
const CORE: &[u8] = include_bytes!("../../tests/gpu_cores/warp_sync.core");
/// One whose warps wait at a barrier in shared memory.
const WAITS: &[u8] = include_bytes!("../../tests/gpu_cores/inside/exited_producer.core");
/// The section type of images.
const IMAGE: u32 = 0x8000_0007;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(core) = read(bytes) {
        check(&core);
    }
    check(&read(&with_image(bytes)[..]).expect("only the image is another"));
    if let Ok(core) = read(&*changed(bytes)) {
        check(&core);
    }
});

/// The core whose warps wait, with other bytes in places: each four of the input are a place and what is there.
fn changed(bytes: &[u8]) -> Vec<u8> {
    let mut core = WAITS.to_vec();
    for change in bytes.chunks_exact(4).take(1 << 10) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
        let last = core.len() - 2;
        core[at.min(last)..][..2].copy_from_slice(&change[2..]);
    }
    core
}

/// The core with another image, which lies behind its end.
fn with_image(image: &[u8]) -> Vec<u8> {
    let mut core = CORE.to_vec();
    let word = |core: &[u8], at: usize| u64::from_le_bytes(core[at..at + 8].try_into().unwrap());
    let table = word(&core, 40) as usize;
    let count = usize::from(u16::from_le_bytes([core[60], core[61]]));
    let headers = (0..count).map(|index| table + 64 * index);
    let at = { headers }.find(|at| core[at + 4..at + 8] == IMAGE.to_le_bytes()).unwrap();
    let start = core.len() as u64;
    core[at + 24..at + 32].copy_from_slice(&start.to_le_bytes());
    core[at + 32..at + 40].copy_from_slice(&(image.len() as u64).to_le_bytes());
    core.extend_from_slice(image);
    core
}

/// What holds for every core.
fn check(core: &GpuCore) {
    let lines = core.lines();
    assert!(lines.iter().all(|line| line.len() < 1 << 22));
    for kernel in core.devices.iter().flat_map(|device| &device.kernels) {
        assert!(kernel.lines().len() <= 8 && kernel.wait_lines().len() <= 5);
        for wait in &kernel.waits {
            assert!(wait.blocks <= kernel.blocks_resident && !wait.warps.is_empty());
            assert!(wait.arrivals_missing <= wait.arrivals_expected);
        }
        assert!(kernel.blocks.is_none_or(|blocks| kernel.blocks_resident <= blocks));
        assert!(kernel.blocks_not_begun.is_none_or(|rest| Some(rest) <= kernel.blocks));
        for place in &kernel.places {
            let [fewest, most] = place.threads_of_a_warp;
            assert!(place.warps <= kernel.warps && 0 < fewest && fewest <= most && most <= 64);
            assert!(place.threads <= place.warps * u64::from(most) && place.threads_active <= place.threads);
            assert!(place.blocks_kept_waiting <= place.blocks && place.blocks <= kernel.blocks_resident);
        }
    }
}
