//! The metrics: docs/WATCHING.md has the table. Names end in their unit, counters in `_total`.
//!
//! Must not: have a label whose values grow with the time that a program runs.

use crate::folder::live::{BlamedNow, HangNow, Life, OutstandingNow, ProcessNow, CAUSES, LOADS};
use lazyguard_core::api::{Code, StreamKind};
use lazyguard_core::diagnose::Confidence;
use lazyguard_core::hazard::StreamClass;
use lazyguard_core::report::one_line;
use lazyguard_core::Nanos;

type Labels = Vec<(&'static str, String)>;

/// Each with the labels that are its own.
type Values = Vec<(Labels, f64)>;

type Row = (&'static str, &'static str, &'static str, fn(&ProcessNow) -> Values);

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

const TABLE: [Row; 17] = [
    ("lazyguard_process_state", GAUGE, "1 for the state that the process is in, else 0.", |now| {
        Life::WORDS.map(|word| labelled("state", word, f64::from(u8::from(now.life.word() == word)))).to_vec()
    }),
    ("lazyguard_hang", GAUGE, "1 while the process hangs, as its watchdog has found.", |now| {
        plain(f64::from(u8::from(now.hangs())))
    }),
    ("lazyguard_hang_seconds", GAUGE, "For how long the call that hangs has lasted; 0 without a hang.", |now| {
        plain(if now.hangs() { seconds(now.hang_nanos) } else { 0.0 })
    }),
    (
        "lazyguard_hang_info",
        GAUGE,
        "1 for the code of the hang that lasts, or stalled, with its class where it is known; else absent.",
        |now| {
            let hang = now.hang.as_ref().filter(|_| now.hangs() || now.is_stalled());
            let class = |hang: &HangNow| hang.class.map(|class| ("class", class.name().to_owned()));
            let labels = |hang: &HangNow| [("code", hang.code.to_owned())].into_iter().chain(class(hang)).collect();
            hang.map(|hang| (labels(hang), 1.0)).into_iter().collect()
        },
    ),
    (
        "lazyguard_blamed",
        GAUGE,
        "1 for the rank that the hang of its job waits for, with code and class; else absent.",
        |now| {
            let class = |blamed: &BlamedNow| blamed.class.map(|class| ("class", class.name().to_owned()));
            let labels =
                |blamed: &BlamedNow| [("code", blamed.code.to_owned())].into_iter().chain(class(blamed)).collect();
            now.blame().map(|blamed| (labels(blamed), 1.0)).into_iter().collect()
        },
    ),
    ("lazyguard_revoked_communicators_total", COUNTER, "Communicators of NCCL that the guard has revoked.", |now| {
        plain(now.revoked.iter().map(|revoked| revoked.communicators.len() as f64).sum())
    }),
    ("lazyguard_slow", GAUGE, "1 while something is waited for past the threshold that may still end.", |now| {
        plain(f64::from(u8::from(
            now.life.is_there() && now.hang.as_ref().is_some_and(|hang| !hang.is_hang && !hang.is_stalled),
        )))
    }),
    ("lazyguard_calls_total", COUNTER, "Driver calls made.", |now| plain(now.calls as f64)),
    ("lazyguard_launches_total", COUNTER, "Kernels and graphs launched.", |now| plain(now.launches as f64)),
    ("lazyguard_loads_total", COUNTER, "What was loaded: functions, modules, and kernels ahead of use.", |now| {
        LOADS.iter().zip(now.tally.loads).map(|(kind, count)| labelled("kind", kind, count as f64)).collect()
    }),
    ("lazyguard_blocked_seconds_total", COUNTER, "For how long threads were blocked in the driver.", |now| {
        CAUSES.iter().zip(now.tally.blocked).map(|(cause, nanos)| labelled("cause", cause, seconds(nanos))).collect()
    }),
    ("lazyguard_hazards_total", COUNTER, "Hazards that the program met.", |now| hazards(now, false)),
    ("lazyguard_hazards_prevented_total", COUNTER, "Hazards that the guard prevented.", |now| hazards(now, true)),
    ("lazyguard_longest_call_seconds", GAUGE, "The longest driver call in progress.", |now| {
        plain(seconds(now.waits.first().map_or(0, |wait| wait.nanos)))
    }),
    (
        "lazyguard_oldest_outstanding_seconds",
        GAUGE,
        "How long ago the oldest operation was submitted that is not known to have ended.",
        |now| by_class(now, |outstanding| seconds(outstanding.nanos)),
    ),
    ("lazyguard_busy_streams", GAUGE, "Streams with work that is not known to have ended.", |now| {
        by_class(now, |outstanding| outstanding.streams as f64)
    }),
    (
        "lazyguard_lost_records_total",
        COUNTER,
        "Records that were overwritten before they were read, or not kept: they are not in the sums.",
        |now| plain(now.lost_records as f64),
    ),
];

/// Prometheus' text format, version 0.0.4. Nothing without a process.
pub(crate) fn text(processes: &[ProcessNow]) -> String {
    let mut text = String::new();
    for (name, kind, help, values) in TABLE {
        let samples = processes.iter().flat_map(|now| values(now).into_iter().map(|value| (who(now), value)));
        let lines: Vec<_> = samples
            .map(|(mut labels, (own, value))| {
                labels.extend(own);
                let labels = labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value)));
                format!("{name}{{{}}} {value}\n", labels.collect::<Vec<_>>().join(","))
            })
            .collect();
        if !lines.is_empty() {
            text += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{}", lines.concat());
        }
    }
    text
}

/// A label's value may be the name of a program.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn who(now: &ProcessNow) -> Labels {
    let foreign = |text: &str| one_line(text).into_owned();
    let values = [foreign(&now.host), foreign(&now.rank), now.process.to_string(), foreign(&now.program)];
    ["host", "rank", "process", "program"].into_iter().zip(values).collect()
}

fn plain(value: f64) -> Values {
    vec![(Labels::new(), value)]
}

fn labelled(label: &'static str, text: &str, value: f64) -> (Labels, f64) {
    (vec![(label, text.to_owned())], value)
}

fn hazards(now: &ProcessNow, prevented: bool) -> Values {
    let of = now.hazards.iter().filter(|((_, was, _), _)| *was == prevented);
    let labels = |code: Code, confidence: Confidence| {
        vec![("code", code.name().to_owned()), ("confidence", confidence.name().to_owned())]
    };
    of.map(|((code, _, confidence), count)| (labels(*code, *confidence), *count as f64)).collect()
}

fn by_class(now: &ProcessNow, value: fn(&OutstandingNow) -> f64) -> Values {
    let kinds =
        [StreamKind::Legacy, StreamKind::PerThread, StreamKind::Blocking, StreamKind::NonBlocking, StreamKind::Unknown];
    let of = |kind| {
        let class = StreamClass::of(Some(kind));
        labelled("stream_class", class.name(), now.outstanding.get(&class).map_or(0.0, value))
    };
    kinds.map(of).to_vec()
}

fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::live::test_samples::{revoked, sample};
    use lazyguard_core::evidence::Class;

    #[test]
    fn names_end_as_the_convention_demands_and_the_page_has_them_all() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/WATCHING.md")).unwrap();
        for (name, kind, help, _) in TABLE {
            assert_eq!(name.ends_with("_total"), kind == COUNTER, "{name}");
            assert!(name.starts_with("lazyguard_") && help.ends_with('.') && !help.contains(['\\', '\n']), "{name}");
            assert!(page.contains(&format!("| `{name}` |")), "docs/WATCHING.md has no row for {name}");
        }
    }

    #[test]
    fn each_metric_has_its_help_its_type_and_a_line_for_each_process() {
        let hang = HangNow {
            is_hang: true,
            is_stalled: false,
            class: None,
            code: "LG201",
            sentence: String::new(),
            call: "cuCtxSynchronize".to_owned(),
            since: 0,
        };
        let outstanding = OutstandingNow { streams: 2, nanos: 2_500_000_000, what: String::new() };
        let one = ProcessNow {
            launches: 7,
            hang: Some(hang),
            hang_nanos: 1_500_000_000,
            revoked: vec![revoked()],
            hazards: [((Code::LG101, false, Confidence::Likely), 3)].into(),
            outstanding: [(StreamClass::NonBlocking, outstanding)].into(),
            ..sample()
        };
        let sentence = "rank 4 has not called collective 2 (/srv/data)".to_owned();
        let blamed = BlamedNow { rank: Some(4), code: "LG208", class: Some(Class::File), sentence };
        let one = ProcessNow { blamed: Some(blamed.clone()), ..one };
        let other = ProcessNow { rank: "4".to_owned(), life: Life::Ended, blamed: Some(blamed), ..sample() };
        let text = text(&[one, other]);
        let who = |rank| format!("host=\"node-7\",rank=\"{rank}\",process=\"4242\",program=\"train\"");
        for line in [
            "# HELP lazyguard_launches_total Kernels and graphs launched.".to_owned(),
            "# TYPE lazyguard_launches_total counter".to_owned(),
            format!("lazyguard_launches_total{{{}}} 7", who(3)),
            format!("lazyguard_launches_total{{{}}} 0", who(4)),
            format!("lazyguard_hang{{{}}} 1", who(3)),
            format!("lazyguard_hang_seconds{{{}}} 1.5", who(3)),
            format!("lazyguard_hang_info{{{},code=\"LG201\"}} 1", who(3)),
            format!("lazyguard_blamed{{{},code=\"LG208\",class=\"file\"}} 1", who(4)),
            format!("lazyguard_revoked_communicators_total{{{}}} 1", who(3)),
            format!("lazyguard_process_state{{{},state=\"ended\"}} 1", who(4)),
            format!("lazyguard_hazards_total{{{},code=\"LG101\",confidence=\"likely\"}} 3", who(3)),
            format!("lazyguard_oldest_outstanding_seconds{{{},stream_class=\"non-blocking\"}} 2.5", who(3)),
            format!("lazyguard_busy_streams{{{},stream_class=\"legacy\"}} 0", who(3)),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains(&format!("lazyguard_hang_info{{{}", who(4))));
        assert!(!text.contains(&format!("lazyguard_blamed{{{}", who(3))) && !text.contains("/srv/data"));
        for (name, ..) in TABLE.iter().filter(|(name, ..)| !name.contains("prevented")) {
            assert_eq!(text.matches(&format!("# TYPE {name} ")).count(), 1, "{name}");
        }
    }

    #[test]
    fn a_stall_has_the_word_for_its_code_and_its_class_and_no_path() {
        let hang = HangNow {
            is_hang: false,
            is_stalled: true,
            class: Some(Class::File),
            code: "stalled",
            sentence: "it reads /data/shard-17.tar (class file)".to_owned(),
            call: String::new(),
            since: 0,
        };
        let text = text(&[ProcessNow { hang: Some(hang), ..sample() }]);
        let who = "host=\"node-7\",rank=\"3\",process=\"4242\",program=\"train\"";
        for line in [
            format!("lazyguard_hang_info{{{who},code=\"stalled\",class=\"file\"}} 1"),
            format!("lazyguard_hang{{{who}}} 0"),
            format!("lazyguard_slow{{{who}}} 0"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("/data"), "{text}");
    }

    #[test]
    fn a_foreign_name_stays_inside_its_label() {
        let foreign = ProcessNow { program: "a\"} 1\nb\\c\u{1b}[2J".to_owned(), ..sample() };
        let text = text(&[foreign]);
        assert!(text.contains("program=\"a\\\"} 1\\\\nb\\\\c\\\\x1b[2J\""), "{text}");
        assert!(text.lines().all(|line| line.starts_with("lazyguard_") || line.starts_with("# ")), "{text}");
        assert_eq!(super::text(&[]), "");
    }
}
