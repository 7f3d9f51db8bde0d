use super::*;
use crate::api::Operation;
use crate::state::InFlight;
use crate::trace::Record;

fn noted(code: Code, call: &str, at: u64) -> HazardEvent {
    HazardEvent {
        code,
        flags: Flags::default(),
        entry_point: EntryPoint::by_symbol(call.as_bytes()).unwrap(),
        thread: 7,
        at,
        noted: at + 10,
        context: 1,
        stream: 2,
        class: StreamClass::NonBlocking,
        function: 1,
        other: InFlight { stream: 1, operation: Operation { at: 1, entry_point: 54, function: 2 } },
        caller: 0x99,
        path: 0,
        count: 0,
    }
}

const NAMES: Names<'static> = Names { kernel: Some("_Z7releasePi"), other: Some("spin") };

#[test]
fn records_are_thinned_out_and_carry_the_count() {
    let mut live = Aggregator::default();
    let mut read = Aggregator::default();
    let mut recorded = Vec::new();
    for at in 1..=11 {
        let noted = noted(Code::LG101, "cuLaunchKernel", at * 100);
        if let Some(count) = live.note(&noted, NAMES) {
            recorded.push(count);
            let words = HazardEvent { count, ..noted }.record().to_words();
            let back = HazardEvent::of(&Record::from_words(&words).unwrap(), 7).unwrap();
            read.read(&back, NAMES);
        }
    }
    assert_eq!(recorded, [1, 2, 4, 8]);
    let (live, read) = (live.hazards(false), read.hazards(false));
    assert_eq!((live.len(), live[0].count, live[0].at_least), (1, 11, false));
    assert_eq!((read[0].count, read[0].at_least), (8, true));
    let alike = Hazard { count: 11, at_least: false, ..read[0].clone() };
    assert_eq!(alike, live[0], "all but the count is the same from the records");
    assert_eq!(live[0].first.at, 100);
}

#[test]
fn one_that_arose_once_is_counted_exactly_from_its_record() {
    let mut read = Aggregator::default();
    let once = HazardEvent { count: 1, ..noted(Code::LG101, "cuLaunchKernel", 100) };
    read.read(&once, NAMES);
    assert_eq!(read.hazards(false).iter().map(|h| (h.count, h.at_least)).collect::<Vec<_>>(), [(1, false)]);
    assert!(read.hazards(true)[0].at_least);
    // Records that were lost before it do not make a later one the first.
    let mut read = Aggregator::default();
    for count in [4, 8, 2] {
        read.read(&HazardEvent { count, ..noted(Code::LG101, "cuLaunchKernel", u64::from(count) * 10) }, NAMES);
    }
    let hazards = read.hazards(false);
    assert_eq!((hazards[0].count, hazards[0].first.at), (8, 20));
    assert_eq!(read.counts(false), [(Code::LG101, 8)]);
}

#[test]
fn what_differs_in_code_kernel_call_class_or_prevention_is_another_hazard() {
    let mut fold = Aggregator::default();
    let base = noted(Code::LG101, "cuLaunchKernel", 100);
    fold.note(&base, NAMES);
    fold.note(&HazardEvent { at: 200, stream: 9, thread: 8, caller: 1, ..base }, NAMES);
    // Another version of the same call.
    fold.note(&HazardEvent { entry_point: EntryPoint::by_symbol(b"cuLaunchKernel_ptsz").unwrap(), ..base }, NAMES);
    assert_eq!(fold.hazards(false).len(), 1);
    fold.note(&HazardEvent { code: Code::LG106, ..base }, NAMES);
    fold.note(&base, Names { kernel: Some("other"), ..NAMES });
    fold.note(&HazardEvent { entry_point: EntryPoint::by_symbol(b"cuLaunchKernelEx").unwrap(), ..base }, NAMES);
    fold.note(&HazardEvent { class: StreamClass::Legacy, ..base }, NAMES);
    fold.note(&HazardEvent { flags: Flags::PREVENTED, ..base }, NAMES);
    let keys: Vec<_> = fold.hazards(false).iter().map(Hazard::key).collect();
    assert_eq!(
        keys,
        [
            "LG101|other|cuLaunchKernel|non-blocking",
            "LG101|release|cuLaunchKernelEx|non-blocking",
            "LG101|release|cuLaunchKernel|legacy",
            "LG101|release|cuLaunchKernel|non-blocking",
            "LG101|release|cuLaunchKernel|non-blocking|prevented",
            "LG106|release|cuLaunchKernel|non-blocking",
        ]
    );
    assert_eq!(fold.counts(false), [(Code::LG101, 6), (Code::LG106, 1)]);
    assert_eq!(fold.counts(true), [(Code::LG101, 1)]);
}

#[test]
fn kernels_whose_names_read_alike_are_one_hazard() {
    let mut fold = Aggregator::default();
    let base = noted(Code::LG101, "cuLaunchKernel", 100);
    fold.note(&base, NAMES);
    fold.note(&HazardEvent { at: 50, ..base }, Names { kernel: Some("_Z7releasePf"), ..NAMES });
    let hazards = fold.hazards(false);
    assert_eq!(hazards.len(), 1);
    assert_eq!((hazards[0].count, hazards[0].first.at), (2, 50));
}

#[test]
fn more_hazards_than_can_be_told_apart_are_counted() {
    let mut fold = Aggregator::default();
    for n in 0..MOST_GROUPS as u64 + 5 {
        let name = format!("k{n}");
        let counted =
            fold.note(&noted(Code::LG101, "cuLaunchKernel", n), Names { kernel: Some(&name), ..Names::default() });
        assert_eq!(counted, (n < MOST_GROUPS as u64).then_some(1));
    }
    assert_eq!((fold.hazards(false).len(), fold.overflow), (MOST_GROUPS, 5));
    assert_eq!(fold.counts(false), [(Code::LG101, MOST_GROUPS as u64 + 5)]);
    // A hazard that has a group is still counted.
    let again = fold.note(&noted(Code::LG101, "cuLaunchKernel", 1), Names { kernel: Some("k0"), other: None });
    assert_eq!(again, Some(2));
}

#[test]
fn every_code_has_its_sentences() {
    let hazards = Code::ALL.iter().filter(|code| code.number() < 200);
    for &code in hazards {
        for flags in [Flags::default(), Flags::TIMED, Flags::UNSATISFIED, Flags::PAGEABLE] {
            for names in [NAMES, Names::default()] {
                let mut fold = Aggregator::default();
                fold.note(&HazardEvent { flags, ..noted(code, "cuLaunchKernel", 2_000_000_000) }, names);
                let hazard = fold.hazards(false).remove(0);
                let sentences = [&[hazard.what.clone(), hazard.fix.clone()], &hazard.must_meet[..]].concat();
                assert!((4..=5).contains(&sentences.len()), "{code}: {sentences:#?}");
                assert!(sentences.iter().all(|sentence| sentence.len() > 20), "{code}: {sentences:#?}");
                assert!(hazard.fix.ends_with('.'), "{code}: {}", hazard.fix);
                assert_eq!(hazard.evidence.len(), 2, "{code}");
                let named = names.kernel.is_none() || hazard.what.contains("release") || hazard.kernel.is_none();
                let about_kernels = matches!(code, Code::LG101 | Code::LG102 | Code::LG106 | Code::LG107 | Code::LG109);
                assert!(named || !about_kernels, "{code}: {}", hazard.what);
            }
        }
    }
}

#[test]
fn the_advice_goes_by_the_class_of_the_call() {
    for (code, call, advice) in [
        (Code::LG104, "cuMemFree_v2", "Release the memory with cuMemFreeAsync (cudaFreeAsync), or "),
        (Code::LG104, "cuMipmappedArrayDestroy", "Keep the memory until that work has ended"),
        (Code::LG104, "cuIpcCloseMemHandle", "Keep the memory until that work has ended"),
        (Code::LG104, "cuLibraryUnload", "Unload it after that work has ended"),
        (
            Code::LG110,
            "cuLibraryLoadFromFile",
            "Call cuLibraryLoadFromFile before lazyguard_ready(); LAZYGUARD_PROFILE ",
        ),
        (
            Code::LG110,
            "cuModuleLoadFatBinary",
            "Call cuModuleLoadFatBinary before lazyguard_ready(); LAZYGUARD_PROFILE ",
        ),
        // A profile keeps functions by their names, and this one has none.
        (Code::LG110, "cuFuncLoad", "Call cuFuncLoad before lazyguard_ready()."),
        (Code::LG110, "cuLinkComplete", "Call cuLinkComplete before lazyguard_ready()."),
    ] {
        let mut fold = Aggregator::default();
        fold.note(&noted(code, call, 1), Names::default());
        let fix = &fold.hazards(false)[0].fix;
        assert!(fix.starts_with(advice), "{code} {call}: {fix}");
    }
}
