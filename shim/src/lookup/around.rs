//! The loaded object around an address, without the lock of the dynamic linker's list, which a launch must not wait for ([`super::loads`]). The GNU C
//! library has `_dl_find_object` for that since 2.35; before, the list is visited.
//!
//! Must not: allocate.

use super::link_map::{self, LinkMap};
use super::objects;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr::null;

pub struct Around<'a> {
    pub file_name: &'a [u8],
    pub addresses: Range<u64>,
    /// The index of its tables for unwinding.
    pub unwind_index: Option<u64>,
}

/// `struct dl_find_object`, with room for other processors' fields.
#[repr(C)]
struct Found {
    flags: u64,
    begin: *const c_void,
    end: *const c_void,
    map: *const LinkMap,
    unwind_index: *const c_void,
    reserved: [u64; 9],
}

type FindObject = unsafe extern "C" fn(*const c_void, *mut Found) -> c_int;

pub fn around<T>(address: u64, tell: impl FnOnce(&Around<'_>) -> T) -> Option<T> {
    match link_map::linker().and_then(|map| map.dynamic().function(c"_dl_find_object")) {
        // SAFETY: the dynamic linker's own function of that name.
        Some(function) => found(unsafe { std::mem::transmute::<*mut c_void, FindObject>(function) }, address, tell),
        None => visited(address, tell),
    }
}

fn found<T>(find: FindObject, address: u64, tell: impl FnOnce(&Around<'_>) -> T) -> Option<T> {
    let mut found = Found { flags: 0, begin: null(), end: null(), map: null(), unwind_index: null(), reserved: [0; 9] };
    // SAFETY: the output is large enough; the address is only compared.
    if unsafe { find(address as *const c_void, &mut found) } != 0 {
        return None;
    }
    // SAFETY: null, or the record of an object whose code is being called.
    let map = unsafe { found.map.as_ref() }?;
    let unwind_index = Some(found.unwind_index.addr() as u64).filter(|index| *index != 0);
    let addresses = found.begin.addr() as u64..found.end.addr() as u64;
    Some(tell(&Around { file_name: map.file_name(), addresses, unwind_index }))
}

fn visited<T>(address: u64, tell: impl FnOnce(&Around<'_>) -> T) -> Option<T> {
    let mut tell = Some(tell);
    objects::find(|object| {
        let addresses = object.addresses();
        let tell = tell.take_if(|_| addresses.contains(&address))?;
        Some(tell(&Around { file_name: object.file_name(), addresses, unwind_index: object.unwind_index() }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_tell_the_same_of_the_object_around_an_address() {
        let told = |object: &Around<'_>| (object.file_name.to_vec(), object.unwind_index, object.addresses.start);
        for address in [
            both_ways_tell_the_same_of_the_object_around_an_address as *const () as u64,
            libc::free as *const () as u64,
        ] {
            let found = around(address, told);
            assert!(found.as_ref().is_some_and(|(.., index, begin)| index.is_some() && *begin <= address));
            assert_eq!(found, visited(address, told));
        }
        assert_eq!(around(1, told), None);
        assert_eq!(visited(1, told), None);
    }
}
