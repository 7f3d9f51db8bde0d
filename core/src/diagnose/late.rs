//! Ranks that are late for a collective, and move: the wait for them is slow.

use super::needs::Decision;
use super::snapshot::Snapshot;

/// Whether a wait past the threshold is one for other ranks.
pub fn waits_for_ranks(snapshot: &Snapshot) -> bool {
    Decision::new(snapshot).findings().iter().any(|finding| finding.path.ends_at_ranks())
}
