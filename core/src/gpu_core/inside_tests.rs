//! Cores of the programs of `testapps/inside`, taken from an H200 by driver 580.159 with `--inside` of `core/tests/gpu_cores/reduce.py`;
//! `inside/cuda-gdb.tsv` has what cuda-gdb 13.0 says of the same files: of a block and a warp at an mbarrier, its address, the parity that is waited
//! for, and the barrier's word.

use super::mbarrier::Mbarrier;
use super::tests::{folder, only_kernel};
use super::*;

fn kernel(name: &str) -> GpuKernel {
    only_kernel(&format!("inside/{name}"))
}

#[test]
fn each_kernel_that_hangs_inside_itself_gets_its_sentence() {
    for (name, stuck, expect) in EXPECTED {
        let kernel = kernel(name);
        assert_eq!(kernel.wait_lines(), expect, "{name}");
        assert_eq!(kernel.stuck().is_some(), stuck, "{name}");
    }
}

#[test]
fn a_healthy_kernel_gets_none() {
    for name in ["slow_pipeline", "slow_copies", "slow_named_barriers", "slow_ticket", "slow_cluster"] {
        assert_eq!(kernel(name).wait_lines(), [""; 0], "{name}");
    }
}

/// The compute capability is one of the core's words.
#[test]
fn on_another_architecture_the_waits_are_not_read_and_a_line_says_so() {
    let bytes = std::fs::read(folder().join("inside/wrong_phase.core")).unwrap();
    let nines = (0..bytes.len() - 4).step_by(4).filter(|at| bytes[*at..at + 4] == [9, 0, 0, 0]);
    let said = nines.filter_map(|at| {
        let mut other = bytes.clone();
        other[at] = 10;
        let core = read(&other[..]).ok()?;
        let [device] = &core.devices[..] else { return None };
        let waits = device.kernels.iter().flat_map(|kernel| &kernel.waits).count();
        Some(device.lines().pop()?).filter(|_| device.waits_unread && waits == 0)
    });
    let expect = "  who waits for whom inside a kernel is not read on sm_90: no core of such a device has been checked";
    assert_eq!(said.collect::<Vec<_>>(), [expect]);
    assert!(!kernel("wrong_phase").waits.is_empty());
}

#[test]
fn barriers_and_their_words_are_those_of_cuda_gdb() {
    let table = std::fs::read_to_string(folder().join("inside/cuda-gdb.tsv")).unwrap();
    let (mut waits, mut over) = (0, 0);
    for row in table.lines() {
        let [name, _block, warp, address, phase, word] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let hexadecimal = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
        let state = Mbarrier::of(hexadecimal(word)).unwrap();
        let (warp, phase): (u32, u32) = (warp.parse().unwrap(), phase.parse().unwrap());
        let kernel = kernel(name);
        let mut found = kernel.waits.iter().filter(|wait| wait.wait == WaitFor::Mbarrier && wait.warps.contains(&warp));
        if name.starts_with("slow_") {
            over += u32::from(!state.holds(phase));
            assert!(found.next().is_none(), "{row}");
            continue;
        }
        let wait = found.next().unwrap_or_else(|| panic!("{row}: {kernel:#?}"));
        assert_eq!((wait.address, wait.phase), (Some(hexadecimal(address)), Some(phase)), "{row}");
        assert_eq!(wait.arrivals_missing, Some(state.arrivals_pending), "{row}");
        assert_eq!(wait.arrivals_expected, Some(state.arrivals_expected), "{row}");
        assert_eq!(wait.bytes_missing, Some(state.bytes_pending), "{row}");
        waits += 1;
    }
    // The bytes of the ring of copies had come when the core was written.
    assert_eq!((waits, over), (28, 6));
}

/// The barrier that a registers' value names and the word there are what decides: another parity, and the wait is over.
#[test]
fn a_wait_whose_phase_has_ended_is_none() {
    let mut bytes = std::fs::read(folder().join("inside/wrong_count.core")).unwrap();
    let word = 0x7fff_0000_001f_ff80_u64.to_le_bytes();
    let places: Vec<_> = bytes.windows(8).enumerate().filter(|(_, window)| *window == word).map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| bytes[at + 7] |= 0x80);
    assert_eq!(read(&bytes[..]).unwrap().devices[0].kernels[0].waits, []);
}

/// Kernels, whether nothing in their blocks can end the wait, and the sentences.
const EXPECTED: [(&str, bool, &[&str]); 11] = [
    (
        "missing_arrival",
        true,
        &[
            "reduce_tile: 3 of 3 blocks: warps 2 and 3 wait at the mbarrier at smem+0x400 (missing_arrival.cu:19) for phase 0: 1 of 2 arrivals is missing; missing_arrival.cu:14 and missing_arrival.cu:17 arrive there: warps 0 and 1, behind that, wait at the block's barrier (missing_arrival.cu:22)",
        ],
    ),
    (
        "wrong_phase",
        true,
        &[
            "gemm: 2 of 2 blocks: warp 1 waits at the mbarrier at smem+0x400 (wrong_phase.cu:28) for phase 0: 1 of 1 arrivals is missing; wrong_phase.cu:22 arrives there: warp 0 waits at the mbarrier at smem+0x408 (wrong_phase.cu:19): a circle, each of the two mbarriers waits for the other",
            "gemm: 2 of 2 blocks: warp 0 waits at the mbarrier at smem+0x408 (wrong_phase.cu:19) for phase 0: 1 of 1 arrivals is missing; wrong_phase.cu:31 arrives there: warp 1 waits at the mbarrier at smem+0x400 (wrong_phase.cu:28): a circle, each of the two mbarriers waits for the other",
        ],
    ),
    (
        "wrong_count",
        true,
        &[
            "stage_in: 2 of 2 blocks: warp 1 waits at the mbarrier at smem+0x480 (wrong_count.cu:17) for phase 0: 32 of 64 arrivals are missing; wrong_count.cu:15 arrives there: warp 0 has exited",
        ],
    ),
    (
        "missing_bytes",
        true,
        &[
            "consume: 2 of 2 blocks: warps 1 to 3 wait at the mbarrier at smem+0x4400 (missing_bytes.cu:24) for phase 0: 8192 bytes are missing; missing_bytes.cu:21 copies there: warp 0 has exited",
        ],
    ),
    (
        "exited_producer",
        true,
        &[
            "attention: 3 of 3 blocks: warps 4 to 7 wait at the mbarrier at smem+0x8410 (exited_producer.cu:43) for phase 1: 1 of 1 arrivals is missing; exited_producer.cu:34 arrives there: warps 0 to 3 have exited; no arrival of that phase is made or ahead: if all were made before, the phase that is meant is over",
        ],
    ),
    (
        "opposite_order",
        true,
        &[
            "exchange: 2 of 2 blocks: warp 0 waits at the mbarrier at smem+0x400 (opposite_order.cu:18) for phase 0: 1 of 1 arrivals is missing; opposite_order.cu:24 arrives there: warp 1 waits at the mbarrier at smem+0x408 (opposite_order.cu:22): a circle, each of the two mbarriers waits for the other",
            "exchange: 2 of 2 blocks: warp 1 waits at the mbarrier at smem+0x408 (opposite_order.cu:22) for phase 0: 1 of 1 arrivals is missing; opposite_order.cu:20 arrives there: warp 0 waits at the mbarrier at smem+0x400 (opposite_order.cu:18): a circle, each of the two mbarriers waits for the other",
        ],
    ),
    (
        "cluster_barrier",
        false,
        &[
            "pair: 2 of 4 blocks: warps 0 to 3 spin on memory at 0x7ff979e00000 (cluster_barrier.cu:10), where it read 0",
            "pair: 2 of 4 blocks: warps 0 to 3 wait at the cluster's barrier (cluster_barrier.cu:12); warps 0 to 3 of the cluster's other blocks spin (cluster_barrier.cu:10)",
        ],
    ),
    (
        "named_barrier",
        true,
        &[
            "meet: 2 of 2 blocks: warps 1 and 2 wait at barrier 1 of the block (named_barrier.cu:12) for 96 threads: 64 are there; warp 0 has exited",
        ],
    ),
    (
        "spin_on_memory",
        false,
        &[
            "follow: 2 of 2 blocks: warp 0 spins on memory at 0x7f4de3e00000 (spin_on_memory.cu:9), where it read 0",
        ],
    ),
    (
        "triton_early_exit",
        false,
        &[
            "add_in_turn: 3 of 3 blocks: warps 0 to 3 spin on memory at 0x7f91c7e04200 (triton_early_exit.py:18)",
        ],
    ),
    (
        "remote_arrival",
        false,
        &[
            "across: 1 of 2 blocks: warp 1 spins on memory at 0x7fd0b3e00000 (remote_arrival.cu:9), where it read 0",
            "across: 1 of 2 blocks: warp 0 waits at the mbarrier at smem+0x400 (remote_arrival.cu:12) for phase 0: 1 of 2 arrivals is missing; remote_arrival.cu:10 arrives there: warp 1 of the cluster's other blocks spins (remote_arrival.cu:9), warp 1, behind that, waits at the cluster's barrier (remote_arrival.cu:14)",
            "across: 1 of 2 blocks: warp 0 waits at the mbarrier at smem+0x400 (remote_arrival.cu:12) for phase 0: 1 of 2 arrivals is missing; remote_arrival.cu:10 arrives there: warp 1 spins (remote_arrival.cu:9)",
            "across: 1 of 2 blocks: warp 1 waits at the cluster's barrier (remote_arrival.cu:14); warp 0 waits at the mbarrier at smem+0x400 (remote_arrival.cu:12), warp 0 of the cluster's other blocks waits at the mbarrier at smem+0x400 (remote_arrival.cu:12), warp 1 of the cluster's other blocks spins (remote_arrival.cu:9)",
        ],
    ),
];
