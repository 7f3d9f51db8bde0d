//! The verdict: when it comes, where it goes and what it says.

/// The lines of the one block on standard error.
pub(crate) fn expect_a_block(stderr: &str) -> Vec<&str> {
    let mut lines = stderr
        .lines()
        .skip_while(|line| !line.starts_with("lazyguard: HANG"));
    let block: Vec<_> = lines
        .by_ref()
        .take_while(|line| line.starts_with("lazyguard: "))
        .collect();
    assert!(block.len() > 4, "no block was written:\n{stderr}");
    block
}
