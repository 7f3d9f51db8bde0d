//! Cores of an H200, taken by driver 580.159 and reduced by `core/tests/gpu_cores/reduce.py`; `spin.cu` beside them is the program, and
//! `cuda-gdb.tsv` what cuda-gdb 13.0 says of them. The three of barriers are of PTX: the second of two warps loops, the first comes to `bar.sync 0` and has
//! behind it a read of `%clock` and 24 `mad.lo`, a loop around a load, or two more barriers. `testapps/simdriver/gpu_core.cpp` writes cores of other drivers, for the end-to-end tests.

use super::*;
use crate::report::one_line;
use std::collections::BTreeMap;
use std::path::PathBuf;

pub(super) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/gpu_cores")
}

fn fixture(name: &str) -> Vec<u8> {
    let path = folder().join(format!("{name}.core"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn core(name: &str) -> GpuCore {
    let core = read(&fixture(name)[..]).unwrap_or_else(|refused| panic!("{name}: {refused}"));
    assert_eq!(core.defects, [""; 0], "{name}");
    core
}

pub(super) fn only_kernel(name: &str) -> GpuKernel {
    core(name).devices.remove(0).kernels.remove(0)
}

#[test]
fn kernels_threads_and_lines_are_those_of_cuda_gdb() {
    let table = std::fs::read_to_string(folder().join("cuda-gdb.tsv")).unwrap();
    let mut checked = 0;
    for row in table.lines() {
        let row: Vec<_> = row.split('\t').collect();
        let kernel = only_kernel(row[0]);
        match row[1..] {
            ["kernel", name, grid, block] => {
                assert_eq!(kernel.launch(), format!("{name}<<<({grid}), ({block})>>>"));
            }
            ["threads", threads, address, file, line] => {
                let address = u64::from_str_radix(address, 16).unwrap();
                let place = kernel.places.iter().find(|place| place.addresses.contains(&address));
                let place = place.unwrap_or_else(|| panic!("{row:?}: {kernel:#?}"));
                let own = &place.frames[0];
                // A place may be of several addresses; those of the threads at a barrier have its line, and cuda-gdb that of an instruction behind it.
                let threads: u64 = threads.parse().unwrap();
                assert!(
                    place.threads == threads || place.addresses.len() > 1 && place.threads > threads,
                    "{row:?}: {place:?}"
                );
                let seen = (own.file.as_deref().and_then(|file| file.rsplit('/').next()), own.line);
                match place.doing {
                    Doing::WaitsAtBarrier => {
                        assert!(place.barrier.is_some_and(|barrier| barrier < address), "{place:?}")
                    }
                    _ => assert_eq!(seen, (Some(file), line.parse().ok()), "{row:?}"),
                }
            }
            _ => panic!("{row:?}"),
        }
        checked += 1;
    }
    assert_eq!(checked, 24);
}

#[test]
fn the_sentences_name_who_waits_and_who_never_came() {
    let expected: [(&str, &[&str]); 9] = [
        (
            "barrier_and_spin",
            &[
                "GPU 0 (NVIDIA H200): 1 kernel; 4 of the 8448 warps that fit are taken",
                "  barrier_and_spin<<<(2,1,1), (64,1,1)>>>: 2 of 2 blocks resident; launched by thread 694",
                "    2 warps (1 lane each) loop in inner_spin (spin.cu:10), called from barrier_and_spin (spin.cu:20); a barrier in each of 2 blocks waits for them",
                "    2 warps wait at the barrier in barrier_and_spin (spin.cu:21)",
                "    2 warps (31 lanes each) wait for other lanes of their warp in barrier_and_spin (spin.cu:21)",
            ],
        ),
        (
            "diverged",
            &[
                "GPU 0 (NVIDIA H200): 1 kernel; 9 of the 8448 warps that fit are taken",
                "  diverged<<<(3,1,1), (96,1,1)>>>: 3 of 3 blocks resident; launched by thread 474",
                "    9 warps (16 lanes each) loop in inlined_spin (spin.cu:14), called from diverged (spin.cu:26)",
                "    9 warps (16 lanes each) loop in inner_spin (spin.cu:10), called from diverged (spin.cu:28)",
            ],
        ),
        (
            "grid_sync",
            &[
                "GPU 0 (NVIDIA H200): 1 kernel; 8 of the 8448 warps that fit are taken",
                "  grid_sync<<<(1,1,1), (64,1,1)>>>: 4 blocks resident; launched by thread 1891",
                "    2 warps loop in inner_spin (spin.cu:10), called from grid_sync (spin.cu:43)",
                "    3 warps (1 lane each) wait for the whole grid in cooperative_groups::__v1::details::sync_grids_wait (sync.h:98), called through 2 functions from grid_sync (spin.cu:44)",
                "    3 warps wait at the barrier in __barrier_sync (sm_30_intrinsics.hpp:98), called through 3 functions from grid_sync (spin.cu:44)",
                "    3 warps (31 lanes each) wait for other lanes of their warp in __barrier_sync (sm_30_intrinsics.hpp:98), called through 3 functions from grid_sync (spin.cu:44)",
            ],
        ),
        (
            "warp_sync",
            &[
                "GPU 0 (NVIDIA H200): 1 kernel; 1 of the 8448 warps that fit are taken",
                "  warp_sync<<<(1,1,1), (32,1,1)>>>: 1 of 1 block resident; launched by thread 473",
                "    1 warp (1 lane) loops in inner_spin (spin.cu:10), called from warp_sync (spin.cu:33)",
                "    1 warp (31 lanes) waits for other lanes of the warp in __syncwarp (sm_30_intrinsics.hpp:110), called from warp_sync (spin.cu:34)",
            ],
        ),
        (
            "some_exited",
            &[
                "GPU 0 (NVIDIA H200): 1 kernel; 4 of the 8448 warps that fit are taken",
                "  some_exited<<<(2,1,1), (128,1,1)>>>: 2 of 2 blocks resident, 4 warps of them ended; launched by thread 472",
                "    4 warps (9 to 32 lanes each) loop in inlined_spin (spin.cu:14), called from some_exited (spin.cu:39)",
            ],
        ),
        (
            "traps",
            &["GPU 0 (NVIDIA H200): no kernel", "  exception: illegal address at 0x7f0c4b7a0a80 in traps (spin.cu:53)"],
        ),
        (
            "of_template",
            &[
                "GPU 0 (NVIDIA H200): 1 kernel; 16 of the 8448 warps that fit are taken",
                "  of_template<long long><<<(2,2,1), (8,8,2)>>>: 4 of 4 blocks resident; launched by thread 476",
                "    16 warps loop in of_template<long long> (spin.cu:55)",
            ],
        ),
        (
            "lock_taken",
            &[
                "GPU 0 (NVIDIA H200): 1 kernel; 2 of the 8448 warps that fit are taken",
                "  lock_taken<<<(2,1,1), (32,1,1)>>>: 2 of 2 blocks resident; launched by thread 475",
                "    2 warps (31 to 32 lanes each) loop in atomicCAS (device_atomic_functions.hpp:202), called from lock_taken (spin.cu:48)",
            ],
        ),
        (
            "exits_one_by_one",
            &[
                "GPU 0 (NVIDIA H200): 1 kernel; 8 of the 8448 warps that fit are taken",
                "  exits_one_by_one<<<(8,1,1), (64,1,1)>>>: 4 of 8 blocks resident; launched by thread 664",
                "    8 warps loop in exits_one_by_one (spin.cu:61)",
            ],
        ),
    ];
    for (name, expected) in expected {
        assert_eq!(core(name).lines(), expected, "{name}");
    }
}

#[test]
fn a_warp_is_at_the_barrier_behind_which_it_was_held() {
    // The barrier and the loop of the other warp, as offsets in the kernel; and where the warp at the barrier was held.
    for (name, barrier, held, other) in [
        ("arithmetic_behind_barrier", 0xb0, 0x200, 0x60),
        ("loop_behind_barrier", 0xc0, 0xd0, 0x70),
        ("barriers_in_a_row", 0xc0, 0xd0, 0x70),
    ] {
        let kernel = only_kernel(name);
        let entry = kernel.places[1].barrier.unwrap() - barrier;
        assert_eq!(kernel.places[1].addresses, [entry + held], "{name}");
        let lines = kernel.lines();
        let expect = [
            format!("  1 warp loops in k+{other:#x}; a barrier of the block waits for it"),
            format!("  1 warp waits at the barrier in k+{barrier:#x}"),
        ];
        assert_eq!(lines[1..], expect, "{name}");
    }
}

#[test]
fn what_else_a_core_says_is_kept() {
    let core = core("barrier_and_spin");
    assert_eq!((core.driver.as_deref(), core.cuda.as_deref()), (Some("580.159"), Some("13.0")));
    let device = &core.devices[0];
    assert_eq!((device.target.as_str(), device.multiprocessors, device.warps), ("sm_90", 132, 4));
    let kernel = &device.kernels[0];
    assert_eq!(kernel.symbol.as_deref(), Some("_Z16barrier_and_spinPViPi"));
    assert_eq!((kernel.status, kernel.blocks, kernel.blocks_not_begun), (GridStatus::Active, Some(2), Some(0)));
    let spins = &kernel.places[0];
    assert_eq!((spins.first_block, spins.first_thread), ([0, 0, 0], [37, 0, 0]));
    assert_eq!((spins.threads, spins.threads_active, spins.blocks), (2, 2, 2));
    assert_eq!(spins.symbol.as_deref(), Some("_Z10inner_spinPVi"));
    assert_eq!(spins.offset, 0x60);
    assert_eq!(kernel.places[2].threads_active, 0);
}

fn section_header(bytes: &[u8], section_type: u32) -> usize {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let count = usize::from(u16::from_le_bytes([bytes[60], bytes[61]]));
    let mut headers = (0..count).map(|index| word(40) + 64 * index);
    headers.find(|at| bytes[at + 4..at + 8] == section_type.to_le_bytes()).unwrap()
}

#[test]
fn entries_that_are_too_short_are_refused_by_name() {
    let kinds = [
        (9, "devices", 72),
        (12, "grids", 104),
        (11, "multiprocessors", 8),
        (13, "blocks", 24),
        (14, "warps", 32),
        (15, "threads", 48),
    ];
    for (kind, of, least) in kinds {
        let mut bytes = fixture("warp_sync");
        let at = section_header(&bytes, 0x8000_0000 + kind);
        bytes[at + 56..at + 64].copy_from_slice(&4_u64.to_le_bytes());
        let expect = format!("has entries of 4 bytes about {of}; the first version of the format has {least}");
        assert_eq!(read(&bytes[..]).unwrap_err().to_string(), expect);
    }
}

#[test]
fn what_is_no_core_of_a_gpu_is_refused_with_what_it_is() {
    let said = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    for bytes in [&b""[..], b"\x7fELF", b"text", &[0; 4096]] {
        assert_eq!(said(bytes), "is no core dump of a GPU: no ELF file of 64 bits");
    }
    let mut foreign = fixture("warp_sync");
    foreign[18] = 62;
    assert_eq!(said(&foreign), "is a core dump, but of a program and not of a GPU (ELF machine 62)");
    foreign[16] = 3;
    assert_eq!(said(&foreign), "is no core dump of a GPU: an ELF file of machine 62, type 3");
    foreign[18] = 0xbe;
    assert_eq!(said(&foreign), "is no core dump of a GPU, but device code, or another file for GPUs (ELF type 3)");

    let mut empty = fixture("warp_sync");
    let at = section_header(&empty, 0x8000_0009);
    empty[at + 4] = 99;
    assert_eq!(said(&empty), "is damaged: it has no table of devices");

    let mut many = fixture("warp_sync");
    let table = u64::from_le_bytes(many[40..48].try_into().unwrap()) as usize;
    many[60..62].copy_from_slice(&[0, 0]);
    many[table + 32..table + 40].copy_from_slice(&0x7fff_ffff_u64.to_le_bytes());
    assert_eq!(said(&many), "is damaged: it claims to have 2147483647 sections");
}

#[test]
fn a_core_that_is_cut_short_is_refused_and_one_with_holes_says_so() {
    let whole = fixture("warp_sync");
    for length in (64..whole.len()).step_by(97) {
        let said = read(&whole[..length]).unwrap_err().to_string();
        let needed =
            said.strip_prefix(&format!("is cut short, or still being written: it has {length} bytes, and would need "));
        let needed: usize = needed.unwrap().strip_suffix(" at least").unwrap().parse().unwrap();
        assert!(needed > length, "{said}");
    }
    // The table of threads lies behind the end.
    let mut holed = whole;
    let at = section_header(&holed, 0x8000_000f);
    holed[at + 24..at + 32].copy_from_slice(&u64::MAX.to_le_bytes());
    let core = read(&holed[..]).unwrap();
    assert_eq!(core.defects, ["1 of its tables lie behind its end: it is cut short, or damaged"]);
    assert_eq!(core.devices[0].kernels[0].warps, 1);
}

#[test]
fn damage_anywhere_is_taken() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut outcomes = BTreeMap::new();
    for name in ["warp_sync", "traps", "inside/wrong_phase", "inside/triton_early_exit", "inside/remote_arrival"] {
        let whole = fixture(name);
        for _ in 0..200 {
            let mut bytes = whole.clone();
            for _ in 0..1 + next() % 8 {
                let at = next() as usize % bytes.len();
                bytes[at] = next() as u8;
            }
            let read = read(&bytes[..]);
            if let Ok(core) = &read {
                assert!(core.devices.iter().flat_map(|device| &device.kernels).all(|kernel| kernel.lines().len() <= 8));
                core.lines().iter().for_each(|line| assert!(!one_line(line).contains('\n')));
            }
            *outcomes.entry(read.is_ok()).or_insert(0) += 1;
        }
    }
    assert!(outcomes[&true] > 100, "{outcomes:?}");
}

#[test]
fn verdicts_are_told_what_was_on_the_device() {
    use crate::api::{Call, Code, NodeKind, StreamKind};
    use crate::diagnose::{
        Confidence, Culprit, Extent, GraphPartSeen, GraphSeen, OperationSeen, Origin, StreamRef, Verdict,
    };
    let stream = StreamRef { number: 1, handle: 0, kind: StreamKind::Blocking, context: 0 };
    let verdict = |code: Code, function: Option<&str>, graph: &[&str]| {
        let mut operation = OperationSeen::new(
            0,
            Call::from("cuLaunchKernel".to_owned()),
            function.map(str::to_owned),
            Origin::default(),
        );
        let part = |name: &&str| GraphPartSeen {
            kind: NodeKind::Kernel,
            count: 1,
            function: Some((*name).to_owned()),
            address: None,
            event: None,
            value: None,
        };
        operation.graph = (!graph.is_empty()).then(|| GraphSeen {
            handle: 1,
            nodes: graph.len() as u32,
            unseen: 0,
            changed: false,
            parts: graph.iter().map(part).collect(),
        });
        vec![Verdict {
            code,
            title: String::new(),
            confidence: Confidence::Likely,
            sentence: String::new(),
            held_back: None,
            threads: Vec::new(),
            chain: Vec::new(),
            culprits: vec![Culprit { stream: stream.clone(), operation }],
            fed: Vec::new(),
            evidence: Vec::new(),
            fix: String::new(),
        }]
    };
    let inside = core("inside/opposite_order");
    let exchange = "_Z8exchangePf";
    for (code, expect) in [(Code::LG299, Code::LG210), (Code::LG206, Code::LG210), (Code::LG204, Code::LG204)] {
        let mut sharpened = verdict(code, Some(exchange), &[]);
        inside.sharpen(&mut sharpened);
        assert_eq!(sharpened[0].code, expect);
        assert_eq!(sharpened[0].sentence.starts_with("exchange: 2 of 2 blocks: warp 0 waits"), expect == Code::LG210);
    }
    let said = inside.beside(&verdict(Code::LG299, Some(exchange), &[]));
    assert_eq!(said, ["LG210 in place of LG299: exchange<<<(2,1,1), (64,1,1)>>> keeps itself from ending"]);
    let launched = |blocks: u64, at_once: bool| {
        let mut verdict = verdict(Code::LG299, Some("_Z9grid_syncPViPi"), &[]);
        let operation = &mut verdict[0].culprits[0].operation;
        (operation.extent, operation.at_once) = (Some(Extent::Grid { blocks, threads: 64, resident: None }), at_once);
        verdict
    };
    // One block of the four spins in place of the second of its grid's synchronizations; it then ends.
    let mut grid = core("grid_sync");
    let sharpened = |grid: &GpuCore, mut verdict: Vec<Verdict>| {
        grid.sharpen(&mut verdict);
        (verdict[0].code, verdict[0].confidence, verdict[0].sentence.clone())
    };
    assert_eq!(sharpened(&grid, launched(5, true)).0, Code::LG299, "a block that runs may meet the others");
    let kernel = &mut grid.devices[0].kernels[0];
    kernel.places.retain(|place| place.doing != Doing::Loops);
    kernel.blocks_resident -= 1;
    let sentence = "grid_sync: 3 of 4 blocks of its grid wait for the whole grid (spin.cu:44), and 1 has ended: the blocks synchronize the grid \
                    unequal numbers of times.";
    assert_eq!(sharpened(&grid, launched(4, true)), (Code::LG210, Confidence::Likely, sentence.to_owned()));
    assert_eq!(sharpened(&grid, launched(3, true)).0, Code::LG299);
    assert_eq!(sharpened(&grid, launched(4, false)).0, Code::LG299, "a block may not have begun");
    let mut lacks = core("barrier_and_spin");
    let place = &mut lacks.devices[0].kernels[0].places[0];
    place.doing = Doing::WaitsForRegisters;
    let (said, line) =
        (lacks.beside(&verdict(Code::LG299, Some("_Z16barrier_and_spinPViPi"), &[])), place_line(&lacks));
    assert!(line.contains(" for registers (setmaxnreg) in "), "{line}");
    assert_eq!(said, [format!("LG299: {line}, until other warps of the block give theirs back")]);
    let mut core = core("barrier_and_spin");
    let launch = "barrier_and_spin<<<(2,1,1), (64,1,1)>>>";
    let named = "_Z16barrier_and_spinPViPi";
    for (verdict, expect) in [
        (verdict(Code::LG201, Some(named), &[]), format!("LG201: what does not end is on the device: {launch}")),
        (verdict(Code::LG299, None, &["_Z3fewv", named]), format!("LG299: what does not end in the graph is {launch}")),
        (verdict(Code::LG201, Some("_Z5otherv"), &[]), format!("LG201: other was not on the device, but {launch} was")),
        // The device has room.
        (verdict(Code::LG206, Some(named), &[]), format!("LG206: what does not end is on the device: {launch}")),
    ] {
        assert_eq!(core.beside(&verdict), [expect]);
    }
    assert_eq!(core.beside(&verdict(Code::LG203, None, &[])), [""; 0]);
    core.devices[0].warps = core.devices[0].warps_most;
    core.devices[0].kernels[0].blocks_not_begun = Some(3);
    let filled = format!(
        "LG206 is certain: {launch} fills GPU 0, all 8448 warps that fit, and 3 blocks of its own have found no room"
    );
    assert_eq!(core.beside(&verdict(Code::LG206, Some(named), &[])), [filled]);
    core.devices[0].kernels.clear();
    let none = "LG201: no kernel was on the device: what does not end waits, or has ended since";
    assert_eq!(core.beside(&verdict(Code::LG201, Some(named), &[])), [none]);
}

fn place_line(core: &GpuCore) -> String {
    core.devices[0].kernels[0].places[0].line()
}

/// A kernel of `setmaxnreg.inc` and `.dec`, as `ptxas` of CUDA 13.0 makes it for sm_90a, without its stores.
#[test]
fn a_warp_that_asks_for_registers_again_and_again_waits_for_them() {
    const CODE: [(u64, u64); 9] = [
        (0x0000_0000_001c_8947, 0x000f_ea00_0380_0000), // @!P0 BRA
        (0x0000_0000_0000_7948, 0x000f_f200_0380_0000), // WARPSYNC.ALL
        (0x0000_00e8_0000_79c8, 0x000e_2400_0800_0600), // USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8
        (0x0000_0000_0000_781c, 0x001f_da00_03f0_f008), // PLOP3.LUT P0, PT, PT, PT, UP0, 0x80, 0x0
        (0xffff_fffc_00f0_8947, 0x000f_ea00_0383_ffff), // @!P0 BRA to the WARPSYNC
        (0x0000_0000_0000_794d, 0x000f_ea00_0380_0000), // EXIT
        (0x0000_0000_0000_7948, 0x000f_f200_0380_0000), // WARPSYNC.ALL
        (0x0000_0028_0000_79c8, 0x000e_0000_080e_0500), // USETMAXREG.DEALLOC.CTAPOOL 0x28
        (0x0000_0000_0000_794d, 0x000f_ea00_0380_0000), // EXIT
    ];
    let word = |at: usize| CODE.get(at).map(|(low, high)| sass::Word(u128::from(*high) << 64 | u128::from(*low)));
    let waits = |at: &usize| sass::waits_for_registers(word, *at, 9);
    assert_eq!((0..CODE.len()).filter(waits).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let without = |at: usize| word(at).filter(|_| at != 4);
    assert!(!sass::waits_for_registers(without, 2, 9), "no loop");
}

/// From cubins that `ptxas` of CUDA 13.0 has made, with what `nvdisasm` of CUDA 13.5 calls them.
#[test]
fn instructions_are_read_as_nvdisasm_reads_them() {
    use sass::{decode, Instruction, Word};
    for (major, low, high, name, expect) in [
        (
            7,
            0x0000_0000_0000_7b1d_u64,
            0x000f_ea00_0000_0000_u64,
            "BAR.SYNC 0x0",
            Instruction::Barrier { defers: false },
        ),
        (
            7,
            0x0000_0000_0000_7b1d,
            0x000f_ea00_0000_4000,
            "BAR.RED.POPC 0x0, P0",
            Instruction::Barrier { defers: false },
        ),
        (7, 0x0000_0000_0000_7b1d, 0x000f_ea00_0000_4800, "BAR.RED.OR 0x0, P0", Instruction::Barrier { defers: false }),
        (7, 0x0000_0000_0000_751d, 0x000f_ea00_0000_0000, "BAR.SYNC R0", Instruction::Barrier { defers: false }),
        (7, 0x0000_0003_0000_731d, 0x000f_ea00_0000_0000, "BAR.SYNC R3, R3", Instruction::Barrier { defers: false }),
        (7, 0x00c0_0000_0000_791d, 0x000f_ea00_0000_0000, "BAR.SYNC 0x3, R0", Instruction::Barrier { defers: false }),
        (7, 0x01c1_8000_0000_7b1d, 0x000f_ea00_0000_2000, "BAR.ARV 0x7, 0x60", Instruction::Other),
        (7, 0x0000_0005_0000_731d, 0x0001_ea00_0000_2000, "BAR.ARV R5, R5", Instruction::Other),
        (7, 0xffff_ffff_0000_7948, 0x000f_e800_0380_0000, "WARPSYNC 0xffffffff", Instruction::WarpBarrier),
        (7, 0x0000_5c00_0000_7b48, 0x000f_e800_0380_0000, "WARPSYNC c[0x0][0x170]", Instruction::WarpBarrier),
        (7, 0x0000_0000_0000_7941, 0x002f_ea00_0380_0000, "BSYNC B0", Instruction::WarpBarrier),
        (7, 0x0000_0064_0000_795d, 0x000f_e600_03a0_0000, "NANOSLEEP.WARP 0x64", Instruction::Sleep),
        (7, 0x0000_00b0_0000_0947, 0x000f_ea00_0380_0000, "@P0 BRA +0xb0", Instruction::Branch(0xb0)),
        (7, 0xffff_ff81_0000_8947, 0x000f_ea00_0383_ffff, "@!P0 BRA.U -0x80", Instruction::Branch(-0x80)),
        (7, 0xffff_fab0_0000_7947, 0x001f_ea00_0383_ffff, "BRA -0x550", Instruction::Branch(-0x550)),
        (
            9,
            0x0000_0000_0000_7b1d,
            0x000f_ec00_0001_0000,
            "BAR.SYNC.DEFER_BLOCKING 0x0",
            Instruction::Barrier { defers: true },
        ),
        (
            9,
            0x0000_0000_0000_7b1d,
            0x000f_ec00_0001_4000,
            "BAR.RED.POPC.DEFER_BLOCKING 0x0, P0",
            Instruction::Barrier { defers: true },
        ),
        (
            9,
            0x0141_8000_0000_7b1d,
            0x000f_f000_0001_0000,
            "BAR.SYNC.DEFER_BLOCKING 0x5, 0x60",
            Instruction::Barrier { defers: true },
        ),
        (9, 0x01c1_8000_0000_7b1d, 0x000f_ec00_0000_2000, "BAR.ARV 0x7, 0x60", Instruction::Other),
        (9, 0x0000_0000_0000_7948, 0x000f_ea00_0380_0000, "WARPSYNC.ALL", Instruction::WarpBarrier),
        (9, 0x0000_0000_0900_7348, 0x000f_f000_0380_0000, "WARPSYNC R9", Instruction::WarpBarrier),
        (9, 0x0000_0000_0000_79c7, 0x000f_e200_0800_0000, "UCGABAR_ARV", Instruction::Other),
        (9, 0x0000_0000_0000_7dc7, 0x000f_e200_0800_0000, "UCGABAR_WAIT", Instruction::ClusterBarrier),
        (9, 0x0000_000a_0000_795d, 0x000f_ea00_0380_0000, "NANOSLEEP 0xa", Instruction::Sleep),
        (9, 0x0000_0000_0014_0947, 0x000f_ea00_0380_0000, "@P0 BRA +0x50", Instruction::Branch(0x50)),
        (9, 0xffff_fffc_00f0_8947, 0x000f_ea00_0383_ffff, "@!P0 BRA -0x40", Instruction::Branch(-0x40)),
        (9, 0xffff_fffc_00fc_7947, 0x000f_c000_0383_ffff, "BRA -0x10", Instruction::Branch(-0x10)),
        (10, 0xffff_fffc_00a4_7947, 0x000f_ea00_0383_ffff, "BRA -0x170", Instruction::Branch(-0x170)),
        (
            12,
            0x0000_0000_0000_7b1d,
            0x000f_ec00_0001_0000,
            "BAR.SYNC.DEFER_BLOCKING 0x0",
            Instruction::Barrier { defers: true },
        ),
        (
            9,
            0x0000_00ff_ff00_75a7,
            0x000e_6400_0800_0144,
            "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], RZ",
            Instruction::Other,
        ),
        (9, 0x0000_0000_0000_794d, 0x000f_ea00_0380_0000, "EXIT", Instruction::Other),
        (6, 0x0000_0000_0000_7b1d, 0x000f_ec00_0001_0000, "no instruction of Pascal", Instruction::Other),
    ] {
        let word = Word(u128::from(high) << 64 | u128::from(low));
        assert_eq!(decode(word, major), expect, "{name}");
    }
}
