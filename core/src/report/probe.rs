//! The driver's own answers during a standstill.

use crate::api::result::error_in_words;
use serde::{Deserialize, Serialize};

/// The driver's answers to the questions that are safe during a hang.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeSeen {
    /// Numbers of idle streams.
    pub idle: Vec<u32>,
    /// Numbers of busy streams.
    pub busy: Vec<u32>,
    /// Streams for which the driver answers an error, and the error.
    pub failed: Vec<(u32, i32)>,
    /// Events that are complete.
    pub events_complete: usize,
    /// Events asked about.
    pub events_asked: usize,
    /// Kernels that are not loaded.
    pub not_loaded: Vec<String>,
    /// Omitted questions, with reasons.
    pub left_out: Vec<String>,
    /// The question that blocks the asking thread.
    pub unanswered: Option<String>,
}

impl ProbeSeen {
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.line()];
        lines.extend(self.left_out.iter().map(|what| format!("  not asked: {what}")));
        lines
    }

    pub fn line(&self) -> String {
        let list = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let mut parts = Vec::new();
        if !self.busy.is_empty() {
            parts.push(format!("busy: stream {}", list(&self.busy)));
        }
        if !self.idle.is_empty() {
            parts.push(format!("idle: stream {}", list(&self.idle)));
        }
        parts.extend(
            self.failed.iter().map(|(stream, result)| format!("stream {stream}: error {}", error_in_words(*result))),
        );
        if self.events_asked > 0 {
            parts.push(format!("complete: {} of {} events", self.events_complete, self.events_asked));
        }
        if !self.not_loaded.is_empty() {
            parts.push(format!("not loaded: {}", self.not_loaded.join(", ")));
        }
        if let Some(question) = &self.unanswered {
            parts.push(format!("{question} was not answered, so the rest was not asked"));
        }
        if parts.is_empty() {
            parts.push("nothing of use".to_owned());
        }
        format!("the driver says: {}", parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_an_answer() {
        assert_eq!(ProbeSeen::default().line(), "the driver says: nothing of use");
        let seen = ProbeSeen { busy: vec![1], failed: vec![(2, 719)], ..ProbeSeen::default() };
        assert_eq!(seen.line(), "the driver says: busy: stream 1; stream 2: error 719 (CUDA_ERROR_LAUNCH_FAILED)");
    }
}
