//! The word by which the log, the records and their filters call a call; part of the output's format.

use crate::api::Class;
use crate::trace::Kind;

/// Every word that [`event_of_record`] can give.
pub fn events() -> impl Iterator<Item = &'static str> {
    "launch graph_launch synchronize memory_operation context unload load hazard preload \
     query copy memset allocation event_record event_wait host_function stream capture communication other"
        .split_ascii_whitespace()
}

/// A call that loaded on first use is a load, whatever else it did.
pub const fn event_of_record(kind: Kind, class: Class) -> &'static str {
    match kind {
        Kind::Call | Kind::Queries => class.event(),
        Kind::ColdFunction | Kind::ColdModule => "load",
        Kind::Hazard => "hazard",
        Kind::Preload => "preload",
        Kind::HostBegins => "host_function_begins",
        Kind::HostEnds => "host_function_ends",
        Kind::Communication => "communication",
        Kind::Seen | Kind::Activity => "seen",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ENTRY_POINTS;
    use std::collections::BTreeSet;

    #[test]
    fn the_list_holds_every_word_once_and_no_other() {
        let mut given: BTreeSet<_> = ENTRY_POINTS.iter().map(|form| form.class.event()).collect();
        for kind in [Kind::ColdFunction, Kind::ColdModule, Kind::Hazard, Kind::Preload, Kind::Queries] {
            given.extend(ENTRY_POINTS.iter().map(|form| event_of_record(kind, form.class)));
        }
        assert_eq!(events().collect::<BTreeSet<_>>(), given);
        assert_eq!(events().count(), given.len());
    }

    #[test]
    fn a_cold_launch_is_a_load_and_a_warm_one_a_launch() {
        assert_eq!(event_of_record(Kind::ColdFunction, Class::Launch), "load");
        assert_eq!(event_of_record(Kind::Call, Class::Launch), "launch");
        assert_eq!(event_of_record(Kind::Queries, Class::EventQuery), "query");
    }
}
