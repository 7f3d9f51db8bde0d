//! The ends of a program in other orders of its steps and of the ends of its kernels, as `player.cpp` plays them: bare, each from a seed.

use crate::program::Program;
use crate::truth::{Stuck, Truth};

/// How many orders ended how.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    /// Those that came to their end.
    pub completed: u64,
    /// Those in which nothing could move any more.
    pub stuck: u64,
    /// Those of the stuck ones that were stuck with a thread in a driver call.
    pub in_a_call: u64,
    /// Those that did neither: the oracle is wrong.
    pub neither: u64,
    /// One that was stuck, in a driver call where one was, and who waited for whom.
    pub first: Option<(u64, Box<Stuck>)>,
}

impl Orders {
    /// Reads what the player has written, and the truth of the first order that was stuck; none where something is incomplete.
    pub fn parse(text: &str, stuck: Option<&str>, program: &Program) -> Option<Self> {
        (text.lines().last()? == "end").then_some(())?;
        let number = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse::<u64>().ok()
        };
        let first = match number("first ") {
            Some(order) => match Truth::parse(stuck?, program)? {
                Truth::Stuck(waits) => Some((order, waits)),
                Truth::Completed { .. } => return None,
            },
            None => None,
        };
        Some(Self {
            completed: number("completed ")?,
            stuck: number("stuck ")?,
            in_a_call: number("in_a_call ")?,
            neither: number("neither ")?,
            first,
        })
    }

    /// Whether an order hangs in a driver call.
    pub fn hangs(&self) -> bool {
        self.in_a_call > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUCK: &str = "stuck 5\nthread 0 100 lock 1 0\nend\n";

    #[test]
    fn what_the_player_writes_is_read() {
        let program = Program::parse("0 lock lock=0\n").unwrap();
        let read = |text: &str, stuck: Option<&str>| Orders::parse(text, stuck, &program);
        let orders = read("completed 3\nstuck 1\nin_a_call 0\nneither 0\nfirst 7\nend\n", Some(STUCK)).unwrap();
        assert_eq!((orders.completed, orders.stuck, orders.neither), (3, 1, 0));
        assert_eq!(orders.first.map(|(order, waits)| (order, waits.threads.len())), Some((7, 1)));
        assert!(!read("completed 200\nstuck 0\nin_a_call 0\nneither 0\nend\n", None).unwrap().hangs());
        assert!(read("completed 3\nstuck 1\n", None).is_none());
        assert!(read("completed 3\nstuck 1\nin_a_call 0\nneither 0\nfirst 7\nend\n", None).is_none());
    }
}
