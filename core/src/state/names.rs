//! The names of functions: each text is kept once, under a number, and read without a lock.

use super::slab::Slab;
use crate::map::{HashMap, HashSet};
use crate::sync::lock;
use std::sync::{Mutex, OnceLock};

#[derive(Default)]
pub(super) struct Names {
    texts: Slab<OnceLock<&'static str>>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    numbers: HashMap<&'static str, u32>,
    recorded: HashSet<u32>,
}

impl Names {
    /// The number of a text, new or known.
    pub fn number(&self, name: &str) -> u32 {
        let mut known = lock(&self.known);
        if let Some(number) = known.numbers.get(name) {
            return *number;
        }
        let number = self.texts.take();
        let kept: &'static str = Box::leak(name.to_owned().into_boxed_str());
        self.texts.get(number).into_iter().for_each(|text| _ = text.set(kept));
        known.numbers.insert(kept, number);
        number
    }

    pub fn text(&self, number: u32) -> Option<&'static str> {
        self.texts.get(number)?.get().copied()
    }

    /// The same, the first time that it is asked for here.
    pub fn first_use(&self, number: u32) -> Option<&'static str> {
        let text = self.text(number)?;
        lock(&self.known).recorded.insert(number).then_some(text)
    }
}
