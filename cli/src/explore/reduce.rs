//! Delta debugging: the fewest holds of a schedule that still hang (Zeller, Hildebrandt 2002).

use super::schedule::Hold;
use crate::Failure;

/// No hold of the result can be left out; `hangs` makes a run.
pub(super) fn reduce(
    all: Vec<Hold>,
    mut hangs: impl FnMut(&[Hold]) -> Result<bool, Failure>,
) -> Result<Vec<Hold>, Failure> {
    let (mut holds, mut parts) = (all, 2);
    while holds.len() > 1 {
        let chunks: Vec<Vec<Hold>> = holds.chunks(holds.len().div_ceil(parts)).map(<[Hold]>::to_vec).collect();
        let without = |n: usize| chunks.iter().enumerate().filter(|(m, _)| *m != n).flat_map(|(_, c)| c.clone()).collect();
        let rests: Vec<Vec<Hold>> = if chunks.len() > 2 { (0..chunks.len()).map(without).collect() } else { Vec::new() };
        let mut smaller = None;
        for (part, is_rest) in chunks.into_iter().map(|part| (part, false)).chain(rests.into_iter().map(|rest| (rest, true))) {
            if hangs(&part)? {
                smaller = Some((part, is_rest));
                break;
            }
        }
        match smaller {
            Some((part, is_rest)) => (holds, parts) = (part, if is_rest { (parts - 1).max(2) } else { 2 }),
            None if parts >= holds.len() => break,
            None => parts = (parts * 2).min(holds.len()),
        }
    }
    Ok(holds)
}

#[cfg(test)]
mod tests {
    use super::super::schedule::CallName;
    use super::*;

    #[test]
    fn what_remains_is_what_the_hang_needs() {
        let hold = |n: usize| Hold { rank: n.to_string(), call: CallName(String::new()), until: None, most: 0 };
        let all: Vec<_> = (0..13).map(hold).collect();
        for needed in [&[4][..], &[0, 12], &[2, 3, 9], &[]] {
            let mut runs = 0;
            let hangs = |holds: &[Hold]| {
                runs += 1;
                Ok(needed.iter().all(|n| holds.contains(&hold(*n))))
            };
            let left = reduce(all.clone(), hangs).unwrap();
            let expect: Vec<_> = needed.iter().copied().map(hold).collect();
            assert!(left == expect || needed.is_empty() && left.len() == 1, "{left:?}");
            assert!(runs < 60, "{runs}");
        }
    }
}
