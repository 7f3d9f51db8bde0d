//! The queue of items to preload, the spent budget, and the counts of what was left out: no item is lost silently.

use lazyguard_core::map::HashSet;
use lazyguard_core::preload::{rest_is_due, Skip, Spent};
use lazyguard_core::report::{NudgeAnswer, PreloadSummary, SkipCount};
use lazyguard_core::settings::Policy;
use lazyguard_core::Nanos;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Item {
    Library(u64),
    /// The same after the start: the profile names those that the program uses.
    Rest(u64),
    Module(u64),
    Kernel(u64, u64),
    Function(u64, u64),
    /// An expected module: the image, and the number among the image's.
    Ahead(u32, u32),
    /// An expected library of a runtime.
    AheadLibrary(u32),
}

impl Item {
    pub fn is_ahead(self) -> bool {
        matches!(self, Self::Ahead(..) | Self::AheadLibrary(_))
    }

    /// 0 where it is not there yet.
    pub fn owner(self) -> u64 {
        match self {
            Self::Library(owner)
            | Self::Rest(owner)
            | Self::Module(owner)
            | Self::Kernel(_, owner)
            | Self::Function(_, owner) => owner,
            Self::Ahead(..) | Self::AheadLibrary(_) => 0,
        }
    }
}

#[derive(Default)]
pub struct Queue {
    pending: Vec<(u32, Item)>,
    /// Libraries to bring into the contexts still to come.
    pub libraries: Vec<Item>,
    spent: BTreeMap<u32, Spent>,
    spent_before: Spent,
    skipped: BTreeMap<Skip, u64>,
    /// Counted once as not loaded yet.
    put_back: HashSet<(Skip, u32, Item)>,
    /// The budget spent on late arrivals, in all contexts.
    pub late: Spent,
    /// Devices that have had a context.
    pub started: HashSet<i32>,
    pub runtimes: Vec<NudgeAnswer>,
    pub notes: Vec<String>,
}

impl Queue {
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// The items of a context, without those that wait until the start is over.
    pub fn pending_for(&self, context: u32, elapsed: Nanos) -> Vec<Item> {
        let here = self.pending.iter().filter(|(c, _)| *c == context).map(|(_, item)| *item);
        here.filter(|item| !matches!(item, Item::Rest(_)) || rest_is_due(elapsed)).collect()
    }

    pub fn add(&mut self, context: u32, item: Item) {
        if context != 0 && !self.pending.contains(&(context, item)) {
            self.pending.push((context, item));
        }
    }

    pub fn done(&mut self, context: u32, item: Item) {
        self.pending.retain(|entry| *entry != (context, item));
    }

    pub fn context_gone(&mut self, context: u32) {
        let spent = self.spent.remove(&context).unwrap_or_default();
        self.spent_before.kernels += spent.kernels;
        self.spent_before.nanos += spent.nanos;
        self.spent_before.bytes += spent.bytes;
        self.put_back.retain(|(_, c, _)| *c != context);
        self.forget(|(c, _)| *c == context);
    }

    pub fn owner_goes(&mut self, owner: u64) {
        self.libraries.retain(|library| library.owner() != owner);
        self.put_back.retain(|(.., item)| item.owner() != owner);
        self.forget(|(_, item)| item.owner() == owner);
    }

    /// Drops items that can no longer be loaded, and counts them.
    fn forget(&mut self, gone: impl Fn(&(u32, Item)) -> bool) {
        let before = self.pending.len();
        self.pending.retain(|entry| !gone(entry));
        self.skip(Skip::Gone, (before - self.pending.len()) as u64);
    }

    pub fn skip(&mut self, reason: Skip, count: u64) {
        if count > 0 {
            *self.skipped.entry(reason).or_default() += count;
        }
    }

    pub fn puts_back(&mut self, reason: Skip, context: u32, items: &[Item]) {
        let fresh = items.iter().filter(|item| self.put_back.insert((reason, context, **item))).count() as u64;
        self.skip(reason, fresh);
    }

    pub fn spent(&self, context: u32) -> Spent {
        self.spent.get(&context).copied().unwrap_or_default()
    }

    pub fn set_spent(&mut self, context: u32, spent: Spent) {
        self.spent.insert(context, spent);
    }

    pub fn summary(&self, policy: Policy) -> PreloadSummary {
        let sum = |field: fn(&Spent) -> u64| self.spent.values().chain([&self.spent_before]).map(field).sum();
        PreloadSummary {
            policy: PreloadSummary::policy_name(policy),
            kernels: sum(|s| s.kernels),
            nanos: sum(|s| s.nanos),
            bytes: sum(|s| s.bytes),
            skipped: self.skipped.iter().map(|(&reason, &count)| SkipCount { reason, count }).collect(),
            pending: self.pending_count() as u64,
            runtimes: self.runtimes.clone(),
            notes: self.notes.clone(),
            ..PreloadSummary::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazyguard_core::preload::Nudge;

    #[test]
    fn the_rest_of_a_library_is_pending_and_has_its_turn_after_the_start() {
        let mut queue = Queue::default();
        for item in [Item::Rest(0xa), Item::Library(0xb)] {
            queue.add(1, item);
            queue.libraries.push(item);
        }
        assert_eq!((queue.pending_count(), queue.pending_for(2, Nanos::MAX)), (2, Vec::new()));
        assert_eq!(queue.pending_for(1, 0), [Item::Library(0xb)]);
        assert_eq!(queue.pending_for(1, Nanos::MAX), [Item::Rest(0xa), Item::Library(0xb)]);
        queue.owner_goes(0xa);
        assert_eq!(
            (queue.pending_for(1, Nanos::MAX), queue.libraries),
            (vec![Item::Library(0xb)], vec![Item::Library(0xb)])
        );
    }

    fn skipped(queue: &Queue) -> Vec<(Skip, u64)> {
        queue.summary(Policy::Auto).skipped.iter().map(|skip| (skip.reason, skip.count)).collect()
    }

    #[test]
    fn an_item_belongs_to_a_library_or_module_if_that_is_there() {
        for (item, owner) in [
            (Item::Library(0xa), 0xa),
            (Item::Rest(0xa), 0xa),
            (Item::Module(0xa), 0xa),
            (Item::Kernel(0xb, 0xa), 0xa),
            (Item::Function(0xb, 0xa), 0xa),
            (Item::Ahead(0xb, 0xa), 0),
            (Item::AheadLibrary(0xa), 0),
        ] {
            assert_eq!(item.owner(), owner, "{item:?}");
        }
    }

    #[test]
    fn an_item_is_pending_once_in_its_context_until_it_is_done() {
        let (mut queue, item) = (Queue::default(), Item::Module(0xa));
        for context in [0, 1, 1, 2] {
            queue.add(context, item);
        }
        assert_eq!([0, 1, 2].map(|context| queue.pending_for(context, 0)), [vec![], vec![item], vec![item]]);
        assert_eq!((queue.pending_count(), queue.summary(Policy::Auto).pending), (2, 2));
        queue.done(1, item);
        assert_eq!([1, 2].map(|context| queue.pending_for(context, 0)), [vec![], vec![item]]);
        assert_eq!(skipped(&queue), []);
    }

    #[test]
    fn what_is_gone_before_its_turn_is_counted() {
        let mut queue = Queue::default();
        let [of_a, also_of_a, of_b] = [Item::Library(0xa), Item::Kernel(0xc, 0xa), Item::Module(0xb)];
        for (context, item) in [(1, of_a), (1, also_of_a), (1, of_b), (2, of_b)] {
            queue.add(context, item);
        }
        queue.owner_goes(0xc);
        assert_eq!((queue.pending_count(), skipped(&queue)), (4, vec![]), "nothing of it was pending");
        queue.owner_goes(0xa);
        assert_eq!((queue.pending_count(), skipped(&queue)), (2, vec![(Skip::Gone, 2)]));
        queue.context_gone(1);
        assert_eq!((queue.pending_for(2, 0), skipped(&queue)), (vec![of_b], vec![(Skip::Gone, 3)]));
    }

    #[test]
    fn each_item_that_met_work_in_flight_is_counted_once_while_it_is_there() {
        let mut queue = Queue::default();
        let items = [Item::Library(0xa), Item::Kernel(0xc, 0xa), Item::Library(0xb)];
        let met = |queue: &mut Queue, context| {
            queue.puts_back(Skip::InFlight, context, &items);
            skipped(queue)
        };
        assert_eq!([1, 1, 2].map(|context| met(&mut queue, context)), [3, 3, 6].map(|count| [(Skip::InFlight, count)]));
        queue.context_gone(2);
        assert_eq!(met(&mut queue, 1), [(Skip::InFlight, 6)]);
        assert_eq!(met(&mut queue, 2), [(Skip::InFlight, 9)], "another context of that number");
        queue.owner_goes(0xa);
        assert_eq!(met(&mut queue, 1), [(Skip::InFlight, 11)], "another library at that address");
    }

    #[test]
    fn the_summary_has_the_policy_the_answers_and_the_notes() {
        let answer = NudgeAnswer { object: "app".to_owned(), fat_binaries: 2, answer: Nudge::RegisterNow };
        let queue = Queue { runtimes: vec![answer.clone()], notes: vec!["a note".to_owned()], ..Queue::default() };
        let summary = queue.summary(Policy::Resolve);
        assert_eq!((summary.policy.as_str(), summary.runtimes), ("resolve", vec![answer]));
        assert_eq!(summary.notes, ["a note"]);
    }

    #[test]
    fn what_was_spent_is_known_for_each_context_and_in_all() {
        let mut queue = Queue::default();
        let [one, other] = [Spent { kernels: 1, nanos: 20, bytes: 300 }, Spent { kernels: 4, nanos: 50, bytes: 600 }];
        queue.set_spent(1, one);
        queue.set_spent(2, other);
        assert_eq!([1, 2, 3].map(|context| queue.spent(context)), [one, other, Spent::default()]);
        let in_all = |queue: &Queue| {
            let all = queue.summary(Policy::Auto);
            (all.kernels, all.nanos, all.bytes)
        };
        assert_eq!(in_all(&queue), (5, 70, 900));
        queue.context_gone(1);
        queue.context_gone(2);
        assert_eq!(
            (queue.spent(1), in_all(&queue)),
            (Spent::default(), (5, 70, 900)),
            "another context of that number"
        );
    }
}
