//! Columns for a person: durations, shares, bars.

const BAR: u64 = 30;

pub(super) fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

/// A part of a whole as a bar; what is there at all is seen.
pub(super) fn bar(part: u64, whole: u64) -> String {
    let length = u128::from(part) * u128::from(BAR) / u128::from(whole.max(1));
    "#".repeat(usize::try_from(length).unwrap_or(0).max(usize::from(part > 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_and_shares_are_parts_of_the_whole() {
        assert_eq!(
            (share(1, 4), share(0, 0), bar(1, 1000), bar(0, 5)),
            ("25.0 %".into(), "0.0 %".into(), "#".into(), String::new())
        );
        assert_eq!(bar(u64::MAX, u64::MAX).len() as u64, BAR);
    }
}
