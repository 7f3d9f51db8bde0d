//! The atlas of the driver's functions beside what is followed here: a function that blocks, on any driver that was asked, is followed, and
//! a thread that is blocked in it gets a verdict that names the work it waits for.
//!
//! Must not: excuse a function without a reason, or one that is followed.

use super::test_trace::TestTrace;
use super::Code;
use crate::api::{Class, EntryPoint};
use crate::state::{StreamKey, StreamKind};
use crate::trace::{Kind, Record};
use std::collections::BTreeSet;
use std::path::Path;

/// The functions that a table says block or hold work back, and that are not held to it, each with the reason.
const EXCUSED: &[(&str, &str)] = &[(
    "cuCtxResetPersistingL2Cache",
    "it returns; what it holds back is LG299, with the oldest operation, as no load explains it",
)];

/// A call that blocks, or that holds back what is submitted after it, as the atlas has it.
struct Blocks {
    function: String,
    variant: String,
    on_default_stream: bool,
    /// It returns.
    stalls: bool,
}

/// The calls that block in any table: beside a kernel or a wait, or beside a wait on a blocking stream alone.
fn calls_that_block() -> Vec<Blocks> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testapps/simdriver/ground-truth");
    let names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let is_table = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("atlas-") && name != "atlas-deviations.tsv"
    };
    let mut found = Vec::new();
    for path in names.filter(is_table) {
        let text = std::fs::read_to_string(&path).unwrap();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let cells: Vec<_> = line.split('\t').collect();
            let notes: Vec<_> = cells[2].split(',').collect();
            let on_default_stream = notes.contains(&"blocks_on_default_stream");
            let stalls = notes.contains(&"stalls");
            if on_default_stream || stalls || notes.contains(&"blocks") {
                let (function, variant) = (cells[0].to_owned(), cells[1].to_owned());
                found.push(Blocks { function, variant, on_default_stream, stalls });
            }
        }
    }
    assert!(found.len() > 40, "a table of the atlas is not what it was: {} calls block", found.len());
    found
}

/// A thread is blocked in the call behind a kernel that does not end.
fn blocked_in(call: &Blocks, symbol: &str) -> TestTrace {
    let kind = if call.on_default_stream { StreamKind::Blocking } else { StreamKind::NonBlocking };
    let story = TestTrace::of(kind);
    story.launch(0, 10, "spin");
    let class = EntryPoint::by_symbol(symbol.as_bytes()).unwrap().class();
    let mut facts = story.facts(symbol, 30, None);
    if call.variant.contains("busy") {
        facts.stream = story.streams[0];
    } else if call.variant == "legacy" || call.on_default_stream {
        let key = StreamKey { handle: 1, context: 0, thread: 0 };
        facts.stream = story.tracker.stream(key, story.context, StreamKind::Legacy, 1);
    } else if matches!(class, Class::Launch | Class::GraphLaunch | Class::CopyAsync | Class::SetAsync) {
        facts.stream = story.streams[1];
    }
    if call.variant.contains("cold") && !class.loads_module() {
        facts.kind = Kind::ColdModule;
    }
    story.blocked_in(1, &Record { function: story.function("called"), ..facts });
    story
}

/// Whether what the stream has before is the whole explanation: the program asked to wait for it, or the call waits in its turn.
fn waits_in_turn(class: Class) -> bool {
    class.synchronizes() || matches!(class, Class::CopyAsync)
}

/// Whether the diagnosis explains a thread that is blocked in the call, or what the call has held back.
fn explained(call: &Blocks, symbol: &str) -> bool {
    let class = EntryPoint::by_symbol(symbol.as_bytes()).unwrap().class();
    if call.stalls {
        // It loads a function, and a load is a barrier whichever call it is of.
        return matches!(class, Class::FunctionLoad | Class::FunctionResolve | Class::Launch | Class::GraphNode);
    }
    blocked_in(call, symbol).diagnosis().verdicts.iter().any(|verdict| {
        let culprit = verdict.culprits.first().and_then(|c| c.operation.function.as_deref());
        culprit == Some("spin") && (verdict.code != Code::LG299 || waits_in_turn(class))
    })
}

#[test]
fn each_function_that_blocks_is_followed_and_has_its_place_in_a_code() {
    let (mut unexplained, mut excused) = (BTreeSet::new(), BTreeSet::new());
    for call in calls_that_block() {
        let symbols: Vec<_> = EntryPoint::by_base(call.function.as_bytes()).map(EntryPoint::symbol).collect();
        if symbols.is_empty() || !symbols.iter().all(|symbol| explained(&call, symbol)) {
            match EXCUSED.iter().find(|(function, _)| *function == call.function) {
                Some((function, _)) => excused.insert(*function),
                None => unexplained.insert(format!("{} ({})", call.function, call.variant)),
            };
        }
    }
    assert!(
        unexplained.is_empty(),
        "not followed, or blocked there without a verdict that names the kernel: {unexplained:?}"
    );
    assert_eq!(excused, EXCUSED.iter().map(|(function, _)| *function).collect(), "what is excused needs it");
}
