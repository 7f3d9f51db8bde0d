//! Functions and kernels of the state, their names, and which modules and libraries are in which context.

use super::context::{Function, FunctionKind};
use super::tracker::Tracker;
use crate::Nanos;

impl Tracker {
    /// The number of a function or kernel, new or known. A handle that is known under another owner has been used again.
    pub fn function(&self, handle: u64, kind: FunctionKind, owner: u64) -> u32 {
        if handle == 0 {
            return 0;
        }
        if let Some(number) = self.function_numbers.get(&handle).map(|n| *n) {
            if let Some(function) = self.functions.get(number).filter(|f| owner != 0 && f.owner() != owner) {
                if function.owner() == 0 {
                    function.set_owner(owner);
                } else {
                    // Its module went with its context, or through a call that is not hooked.
                    function.begin(handle, kind, owner);
                    self.next_epoch();
                }
            }
            return number;
        }
        *self.function_numbers.entry(handle).or_insert_with(|| {
            let number = self.functions.take();
            if let Some(function) = self.functions.get(number) {
                function.begin(handle, kind, owner);
            }
            number
        })
    }

    pub fn known_function(&self, handle: u64) -> Option<u32> {
        self.function_numbers.get(&handle).map(|n| *n)
    }

    pub fn function_entry(&self, number: u32) -> Option<&Function> {
        self.functions.get(number)
    }

    /// Names a function. The text is kept once, however many functions bear it.
    pub fn name_function(&self, number: u32, name: &str) {
        let Some(function) = self.functions.get(number) else { return };
        function.set_name_number(self.names.number(name));
    }

    /// A function is used: from the first time on, the recording knows it by its number. Returns whether this is the first.
    pub fn introduce_function(&self, number: u32, now: Nanos) -> bool {
        let Some(function) = self.functions.get(number).filter(|f| f.introduce()) else { return false };
        let name = function.name_number();
        // The name is recorded once, however many functions have it.
        let text = self.names.first_use(name);
        if let Some(text) = text {
            self.recorder.add_name(now, name, text);
        }
        let kernel = function.kind() == FunctionKind::Kernel;
        self.recorder.add_function(now, number, name, function.handle(), function.owner(), kernel);
        true
    }

    pub fn is_named(&self, number: u32) -> bool {
        self.functions.get(number).is_some_and(|f| f.name_number() != 0)
    }

    pub fn function_name(&self, number: u32) -> Option<&'static str> {
        self.names.text(self.functions.get(number)?.name_number())
    }

    /// The code of a module or library is in a context: the guard has brought it there (`is_ahead`), unless it was there.
    pub fn set_present(&self, owner: u64, context: u32, is_ahead: bool) {
        if owner != 0 && context != 0 {
            self.present.entry((owner, context)).or_insert(is_ahead);
        }
    }

    /// Something of a module or library is used in a context. Returns whether this is the first use of what the guard had
    /// brought there.
    pub fn take_present_preloaded(&self, owner: u64, context: u32) -> bool {
        self.present.get_mut(&(owner, context)).is_some_and(|mut ahead| std::mem::take(ahead.value_mut()))
    }

    pub fn present(&self, owner: u64, context: u32) -> bool {
        self.present.contains_key(&(owner, context))
    }

    /// A module or library is gone, and its functions with it.
    pub fn owner_gone(&self, owner: u64) {
        self.present.retain(|key, _| key.0 != owner);
        self.function_numbers.retain(|_, number| {
            let Some(function) = self.functions.get(*number).filter(|f| f.owner() == owner) else { return true };
            function.end();
            self.functions.give_back(*number);
            false
        });
        self.next_epoch();
    }
}
