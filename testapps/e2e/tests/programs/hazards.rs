//! Hazards: the guard reports exactly the hazards that the first lines of a program state, and none for the control programs.

use crate::{ask, part_of_corpus, questions};
use lazyguard_e2e::{app, apps, corpus, hazards_of, one_of_three, Expect, Group, InCorpus, Json, Run, Work};
use libtest_mimic::Trial;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest takes half a second, on a machine that may be busy with something else.
const ENDS: Duration = lazyguard_e2e::PATIENCE;
/// Programs of `testapps/apps` that hang for a reason that no hazard announces.
const HANGS_WITHOUT_HAZARD: [&str; 2] = ["plain_spin", "wait_never_written"];

pub(crate) fn trials() -> Vec<Trial> {
    let programs = part_of_corpus("hazard").into_iter();
    let of_each = questions![its_hazards_are_told_live_and_from_its_recording_and_no_others];
    let mut trials: Vec<_> = programs.flat_map(|program| ask("hazards", &program.name, of_each)).collect();
    let of_all: [(&str, fn()); 4] = [
        (
            "every_code_has_a_program_that_gives_it_and_one_that_comes_near",
            every_code_has_a_program_that_gives_it_and_one_that_comes_near,
        ),
        ("the_controls_have_no_hazard", the_controls_have_no_hazard),
        ("what_held_the_host_in_the_fourth_seed_is_told", what_held_the_host_in_the_fourth_seed_is_told),
        ("a_program_that_launches_all_the_time_has_no_hazard", a_program_that_launches_all_the_time_has_no_hazard),
    ];
    trials.extend(of_all.map(|(name, ask)| {
        Trial::test(format!("hazards::{name}"), move || {
            ask();
            Ok(())
        })
    }));
    trials
}

fn run<'w>(work: &'w Work, program: &InCorpus) -> Run<'w> {
    Run::new(work, program.path())
}

fn its_hazards_are_told_live_and_from_its_recording_and_no_others(test: &str, name: &str) {
    let (work, program) = (Work::new(test), InCorpus::named(name));
    let Expect::Hazards { arisen, prevented } = &program.header.expect else { panic!("{name} has no hazards") };
    let guarded = program
        .header
        .env
        .iter()
        .fold(run(&work, &program).guarded().kept(), |run, (name, value)| run.set(name, value));
    // One after the other: what is a matter of time is not to be disturbed more than it has to be.
    let bare = run(&work, &program).start().finish_within(ENDS);
    assert_eq!((bare.code, bare.stderr.as_str()), (Some(0), ""), "it should complete: {bare}");
    let kept = guarded.start().finish_within(ENDS);
    kept.expect_same_as(&bare);

    let expected: BTreeSet<_> =
        arisen.iter().map(|group| key(group, false)).chain(prevented.iter().map(|group| key(group, true))).collect();
    let live = written_down(kept.out().path());
    let told = keys(&live);
    let what = &program.header.what;
    assert_eq!(told, expected, "left: as it was written down, right: as its first lines say\n{what}\n{live:#}");
    live.as_array().into_iter().flatten().for_each(expect_to_be_told_in_full);

    let counted = counted(&kept.out().summary());
    assert_eq!(counted, codes(&live), "left: what the summary counts, right: hazards.json");

    let recorded = hazards_of(without_what_was_written_down(&work, kept.out().path()));
    assert_eq!(
        keys(&recorded),
        expected,
        "left: from the recording alone, right: as its first lines say\n{recorded:#}"
    );
    recorded.as_array().into_iter().flatten().for_each(expect_to_be_told_in_full);
    let weighed = by_key(&recorded);
    for group in arisen {
        let confidence = if group.is_possible { "possible" } else { "likely" };
        assert_eq!(weighed[&key(group, false)]["confidence"], confidence, "{recorded:#}");
    }
    // The file and the recording agree on where a hazard first arose, and with what; the recording may know fewer occurrences.
    for (live, recorded) in by_key(&live).into_iter().zip(by_key(&recorded)) {
        for part in ["/what", "/must_meet", "/fix", "/first/at", "/first/other", "/first/held_nanos"] {
            assert_eq!(live.1.pointer(part), recorded.1.pointer(part), "{part}\n{live:#?}\n{recorded:#?}");
        }
    }
}

/// As `Hazard::key` of the core has it, which baselines and suppressions go by.
fn key(group: &Group, prevented: bool) -> String {
    let Group { code, kernel, call, stream, .. } = group;
    format!("{code}|{kernel}|{call}|{stream}{}", if prevented { "|prevented" } else { "" })
}

fn by_key(hazards: &Json) -> BTreeMap<String, &Json> {
    let said = |hazard: &Json, part: &str| hazard[part].as_str().unwrap_or("-").to_owned();
    let group = |hazard: &Json| Group {
        code: said(hazard, "code"),
        kernel: said(hazard, "kernel"),
        call: said(hazard, "call"),
        stream: said(hazard, "stream_class"),
        is_possible: false,
    };
    let all = hazards.as_array().expect("hazards are a list");
    let keyed = all.iter().map(|hazard| (key(&group(hazard), hazard["prevented"] == true), hazard));
    let keyed: BTreeMap<_, _> = keyed.collect();
    assert_eq!(keyed.len(), all.len(), "one hazard stands twice in {hazards:#}");
    keyed
}

fn keys(hazards: &Json) -> BTreeSet<String> {
    by_key(hazards).into_keys().collect()
}

/// The hazards that the process wrote down; none where it had nothing to write.
fn written_down(folder: &Path) -> Json {
    let path = folder.join("hazards.json");
    let Ok(text) = fs::read_to_string(&path) else { return Json::Array(Vec::new()) };
    let mut file: Json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    file["hazards"].take()
}

/// How often each code is counted: what arose, and what was prevented.
type Counts = [BTreeSet<(String, u64)>; 2];

fn codes(hazards: &Json) -> Counts {
    [false, true].map(|prevented| {
        let of = hazards.as_array().into_iter().flatten().filter(|hazard| hazard["prevented"] == prevented);
        let mut counts = BTreeMap::new();
        for hazard in of {
            *counts.entry(hazard["code"].as_str().unwrap_or("?").to_owned()).or_insert(0) +=
                hazard["count"].as_u64().unwrap_or(0);
        }
        counts.into_iter().collect()
    })
}

fn counted(summary: &Json) -> Counts {
    ["hazards", "prevented"].map(|part| {
        let pair = |pair: &Json| Some((pair[0].as_str()?.to_owned(), pair[1].as_u64()?));
        summary[part].as_array().into_iter().flatten().filter_map(pair).filter(|(_, count)| *count > 0).collect()
    })
}

/// A copy of a run folder with nothing to go by but the recording.
fn without_what_was_written_down(work: &Work, folder: &Path) -> PathBuf {
    let copy = work.folder("recording");
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())).flatten() {
        let name = entry.file_name();
        if name != "hang.json" && name != "hazards.json" && entry.path().is_file() {
            let copied = fs::copy(entry.path(), copy.join(name));
            copied.unwrap_or_else(|error| panic!("{}: {error}", entry.path().display()));
        }
    }
    copy
}

fn expect_to_be_told_in_full(hazard: &Json) {
    let missing = |part: &&str| match hazard.pointer(part) {
        Some(Json::String(text)) => text.is_empty(),
        Some(Json::Array(items)) => items.is_empty(),
        Some(Json::Number(number)) => number.as_u64() == Some(0),
        _ => true,
    };
    let parts = ["/title", "/count", "/what", "/must_meet", "/evidence", "/fix", "/first/at", "/first/thread"];
    let missing: Vec<_> = parts.iter().filter(|part| missing(part)).collect();
    assert_eq!(missing, [&""; 0], "{hazard:#}");
    let meet = hazard["must_meet"].as_array().map_or(0, Vec::len);
    assert!((2..=3).contains(&meet), "{meet} operations have to meet: {hazard:#}");
}

fn every_code_has_a_program_that_gives_it_and_one_that_comes_near() {
    let (mut codes, mut nothing, mut prevented_codes) = (BTreeSet::new(), 0, BTreeSet::new());
    for program in corpus() {
        let Expect::Hazards { arisen, prevented } = program.header.expect else { continue };
        nothing += u32::from(arisen.is_empty() && prevented.is_empty());
        codes.extend(arisen.into_iter().map(|group| group.code));
        prevented_codes.extend(prevented.into_iter().map(|group| group.code));
    }
    let every: BTreeSet<_> = (101..=110).map(|number| format!("LG{number}")).collect();
    assert_eq!(codes, every);
    assert!(nothing >= 9, "only {nothing} programs come near a hazard and have none");
    assert_eq!(prevented_codes, BTreeSet::from(["LG101".to_owned(), "LG102".to_owned()]));
}

fn expect_no_hazard(work: &Work, run: Run<'_>, name: &str, ends: bool) {
    // What hangs is stopped when all of it is submitted; the file of hazards is written as soon as there is one.
    let limit = if ends { ENDS } else { Duration::from_millis(1500) };
    let outcome = run.start().finish_within(limit);
    assert_eq!(outcome.code, ends.then_some(0), "{name}: {outcome}");
    let live = written_down(outcome.out().path());
    assert_eq!(live, Json::Array(Vec::new()), "{name}: {live:#}");
    let recorded = hazards_of(without_what_was_written_down(work, outcome.out().path()));
    assert_eq!(recorded, Json::Array(Vec::new()), "{name}, from the recording alone: {recorded:#}");
}

/// A program of `testapps/apps` that has nothing to do with what hazards are about.
fn is_a_control(name: &str) -> bool {
    ["slow_but_fine", "module_pair", "lazy_pair_single_kernel"].contains(&name) || name.starts_with("route_")
}

fn the_controls_have_no_hazard() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut asked = 0;
    for app in apps() {
        let hangs = HANGS_WITHOUT_HAZARD.contains(&app.name.as_str());
        if hangs || !app.hangs_bare() && is_a_control(&app.name) {
            asked += 1;
            expect_no_hazard(&work, run_app(&work, &app.name), &app.name, !hangs);
        }
    }
    assert!(asked >= 10, "only {asked} programs were asked about");
}

/// `blocking_async` shows what asynchronous calls block on, in the order of its phases. Of the pageable copies that is the one to the
/// host: one of a megabyte to the device is staged.
fn what_held_the_host_in_the_fourth_seed_is_told() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let expected = ["LG105|-|cuMemcpyDtoHAsync|blocking", "LG106|count|cuLaunchKernel|blocking"];
    // On a busy machine, staging takes a moment as well.
    one_of_three(|| {
        let outcome = run_app(&work, "blocking_async").finish();
        assert_eq!(outcome.code, Some(0), "{outcome}");
        let hazards = written_down(outcome.out().path());
        let arisen = keys(&hazards).into_iter().filter(|key| !key.ends_with("|prevented")).collect::<BTreeSet<_>>();
        let is_right = arisen == expected.map(str::to_owned).into();
        if is_right {
            Ok(())
        } else {
            Err(format!("{hazards:#}"))
        }
    });
}

fn run_app<'w>(work: &'w Work, name: &str) -> Run<'w> {
    lazyguard_e2e::run(work, &lazyguard_e2e::App::named(name)).guarded().kept()
}

fn a_program_that_launches_all_the_time_has_no_hazard() {
    let work = Work::new(lazyguard_e2e::this_test!());
    expect_no_hazard(&work, Run::new(&work, app("launch_bench")).guarded().kept(), "launch_bench", true);
}
