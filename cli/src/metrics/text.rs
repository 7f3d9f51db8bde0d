//! Prometheus' text format, version 0.0.4.
//!
//! Must not: write a label's value without its escapes; it may be the name of a program.

use super::families::{Family, Kind};
use std::fmt::Write as _;

/// The metrics as a file for a scrape, or for node_exporter.
pub(super) fn text(families: &[Family]) -> String {
    let mut text = String::new();
    for Family { name, help, kind, samples } in families {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        // A `String` takes everything.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for sample in samples {
            let labels: Vec<_> =
                sample.labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
            let _ = writeln!(text, "{name}{{{}}} {}", labels.join(","), sample.value);
        }
    }
    text
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::families;
    use super::*;
    use crate::live::{sample, HangNow, Life, OutstandingNow, ProcessNow};
    use lazyguard_core::api::Code;
    use lazyguard_core::hazard::StreamClass;

    #[test]
    fn each_metric_has_its_help_its_type_and_a_line_for_each_process() {
        let hang = HangNow {
            is_hang: true,
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
            hazards: [((Code::LG101, false), 3)].into(),
            outstanding: [(StreamClass::NonBlocking, outstanding)].into(),
            ..sample()
        };
        let other = ProcessNow { rank: "4".to_owned(), life: Life::Ended, ..sample() };
        let text = text(&families::of(&[one, other]));
        let who = |rank| format!("host=\"node-7\",rank=\"{rank}\",process=\"4242\",program=\"train\"");
        for line in [
            "# HELP lazyguard_launches_total Kernels and graphs launched.".to_owned(),
            "# TYPE lazyguard_launches_total counter".to_owned(),
            format!("lazyguard_launches_total{{{}}} 7", who(3)),
            format!("lazyguard_launches_total{{{}}} 0", who(4)),
            format!("lazyguard_hang{{{}}} 1", who(3)),
            format!("lazyguard_hang_seconds{{{}}} 1.5", who(3)),
            format!("lazyguard_hang_info{{{},code=\"LG201\"}} 1", who(3)),
            format!("lazyguard_process_state{{{},state=\"ended\"}} 1", who(4)),
            format!("lazyguard_hazards_total{{{},code=\"LG101\"}} 3", who(3)),
            format!("lazyguard_oldest_outstanding_seconds{{{},stream_class=\"non-blocking\"}} 2.5", who(3)),
            format!("lazyguard_busy_streams{{{},stream_class=\"legacy\"}} 0", who(3)),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains(&format!("lazyguard_hang_info{{{}", who(4))));
        for name in families::names().iter().filter(|name| !name.contains("prevented")) {
            assert_eq!(text.matches(&format!("# TYPE {name} ")).count(), 1, "{name}");
        }
    }

    #[test]
    fn a_foreign_name_stays_inside_its_label() {
        let foreign = ProcessNow { program: "a\"} 1\nb\\c\u{1b}[2J".to_owned(), ..sample() };
        let text = text(&families::of(&[foreign]));
        assert!(text.contains("program=\"a\\\"} 1\\\\nb\\\\c\\\\x1b[2J\""), "{text}");
        assert!(text.lines().all(|line| line.starts_with("lazyguard_") || line.starts_with("# ")), "{text}");
        assert_eq!(families::of(&[]), []);
    }
}
