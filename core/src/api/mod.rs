//! Driver functions: their names, versions and classes; and the words that all other modules share. All facts come from `table.rs` and
//! `nccl.rs`, at compile time.

mod activity;
mod call;
mod class;
mod code;
mod graph;
mod memory;
mod nccl;
mod quantity;
pub mod result;
mod stream;
mod table;

pub use activity::{Asked, ComputeTime, ThreadActivity};
pub use call::Call;
pub use class::{Class, ColdKind, Keep, Lane, Work, SLOW_NANOS};
pub use code::Code;
pub use graph::{GraphContents, GraphPart, NodeKind};
pub use memory::{identity_of, Condition, SharedMemory, Stores, ValueWait, ValueWrite};
pub use nccl::{data_type_name, operator_name};
pub use quantity::{counted, lasted, ordinal, time_of_day, Quantity};
pub use stream::{oldest_outstanding, Operation, StreamKind, StreamWork, Submissions};

/// The place of a name in a text of all names. A table of `&'static str` has pointers, which the dynamic linker writes in every process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    at: u16,
    length: u8,
}

impl Span {
    const NONE: Self = Self { at: 0, length: 0 };

    /// Empty where `all` has no such place: hooks ask for names outside the door, so it must not panic.
    const fn of(self, all: &'static str) -> &'static str {
        let Some((_, from)) = all.split_at_checked(self.at as usize) else { return "" };
        let Some((text, _)) = from.split_at_checked(self.length as usize) else { return "" };
        text
    }

    const fn next(self, length: usize) -> Self {
        let at = self.at as usize + self.length as usize;
        assert!(at + length <= u16::MAX as usize && length <= u8::MAX as usize);
        Self { at: at as u16, length: length as u8 }
    }
}

/// An exported symbol that LazyGuard interposes, as an index into [`ENTRY_POINTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EntryPoint(u16);

#[derive(Clone, Copy, Debug)]
pub struct EntryPointInfo {
    /// Carried by records; never reused.
    pub id: u16,
    symbol: Span,
    base: Span,
    /// The first version, as `cuGetProcAddress` counts, for which this entry point answers to `base`.
    pub since: i32,
    /// Whether the default stream is the calling thread's own.
    pub per_thread: bool,
    pub class: Class,
}

impl EntryPointInfo {
    const fn names(&self) -> &'static str {
        if self.class.is_of_nccl() {
            NCCL_NAMES
        } else {
            DRIVER_NAMES
        }
    }

    pub const fn symbol(&self) -> &'static str {
        self.symbol.of(self.names())
    }

    pub const fn base(&self) -> &'static str {
        self.base.of(self.names())
    }
}

impl EntryPoint {
    pub const fn from_index(index: usize) -> Option<Self> {
        if index < ENTRY_POINTS.len() {
            Some(Self(index as u16))
        } else {
            None
        }
    }

    pub const fn named(symbol: &str) -> Self {
        let mut index = 0;
        while index < ENTRY_POINTS.len() {
            if are_equal(ENTRY_POINTS[index].symbol().as_bytes(), symbol.as_bytes()) {
                return Self(index as u16);
            }
            index += 1;
        }
        panic!("each symbol that is named is in the table")
    }

    pub const fn id(self) -> u16 {
        self.info().id
    }

    pub const fn index(self) -> usize {
        self.0 as usize
    }

    pub const fn info(self) -> &'static EntryPointInfo {
        // No index is beyond the table. The comparison keeps a panic out of the look-up.
        &ENTRY_POINTS[if self.index() < ENTRY_POINTS.len() { self.index() } else { 0 }]
    }

    pub const fn is_of_driver(self) -> bool {
        self.index() < DRIVER_ENTRY_POINTS.len()
    }

    pub const fn class(self) -> Class {
        self.info().class
    }

    pub const fn symbol(self) -> &'static str {
        self.info().symbol()
    }

    /// Whether a copy's destination may be the host's.
    pub fn may_copy_to_the_host(self) -> bool {
        const BETWEEN_OTHERS: [&str; 7] = ["HtoD", "HtoA", "DtoD", "DtoA", "AtoD", "AtoA", "Peer"];
        let base = self.info().base();
        let copies = matches!(self.class(), Class::Copy | Class::CopyAsync);
        copies && base.strip_prefix("cuMemcpy").is_some_and(|rest| !BETWEEN_OTHERS.iter().any(|one| rest.contains(one)))
    }

    /// Whether it submits what may tell the program that work before it has ended, by the host's memory alone.
    pub fn may_tell_memory(self) -> bool {
        self.class().may_tell_memory() && (self.class() != Class::CopyAsync || self.may_copy_to_the_host())
    }

    pub fn by_symbol(symbol: &[u8]) -> Option<Self> {
        ENTRY_POINTS.iter().position(|f| f.symbol().as_bytes() == symbol).and_then(Self::from_index)
    }

    pub const fn by_id(id: u16) -> Option<Self> {
        if (id as usize) < BY_ID.len() {
            return Self::from_index(BY_ID[id as usize] as usize);
        }
        None
    }

    /// The first one of a class, for records that belong to no particular call.
    pub fn of_class(class: Class) -> Self {
        let found = ENTRY_POINTS.iter().position(|entry_point| entry_point.class == class).and_then(Self::from_index);
        found.unwrap_or(Self(0))
    }

    pub fn by_base(base: &[u8]) -> impl Iterator<Item = Self> + '_ {
        (0..ENTRY_POINTS.len()).filter(move |&i| ENTRY_POINTS[i].base().as_bytes() == base).filter_map(Self::from_index)
    }

    /// The newest entry point of that name and convention that is no newer than the version.
    pub fn by_request(base: &[u8], version: i32, per_thread: bool) -> Option<Self> {
        let newest = |wanted: bool| {
            Self::by_base(base)
                .filter(|f| f.info().per_thread == wanted && f.info().since <= version)
                .max_by_key(|f| f.info().since)
        };
        newest(per_thread).or_else(|| if per_thread { newest(false) } else { None })
    }
}

#[derive(Clone, Copy)]
struct Row {
    id: u16,
    symbol: &'static str,
    since: i32,
    class: Class,
}

macro_rules! define_entry_points {
    ($(
        $class:ident $args:tt => $family:ident :: $hook:ident $used:tt { $( $id:literal $symbol:ident $since:literal; )+ }
    )+) => {
        const DRIVER_NAMES: &str = concat!($($(stringify!($symbol),)+)+);
        const DRIVER_ROWS: &[Row] = &[
            $($(Row { id: $id, symbol: stringify!($symbol), since: $since, class: Class::$class },)+)+
        ];
    };
}

crate::with_driver_api!(define_entry_points);

macro_rules! define_nccl_entry_points {
    ($( $id:literal $class:ident $symbol:ident $args:tt => $hook:ident $used:tt; )+) => {
        const NCCL_NAMES: &str = concat!($(stringify!($symbol),)+);
        const NCCL_ROWS: &[Row] = &[
            $(Row { id: $id, symbol: stringify!($symbol), since: 0, class: Class::$class },)+
        ];
    };
}

crate::with_nccl_api!(define_nccl_entry_points);

const ROWS: [Row; DRIVER_ROWS.len() + NCCL_ROWS.len()] = {
    let mut all = [DRIVER_ROWS[0]; DRIVER_ROWS.len() + NCCL_ROWS.len()];
    let mut index = 0;
    while index < all.len() {
        all[index] = if index < DRIVER_ROWS.len() { DRIVER_ROWS[index] } else { NCCL_ROWS[index - DRIVER_ROWS.len()] };
        index += 1;
    }
    all
};

/// The length of a symbol's base name, and whether its default stream is the calling thread's own.
const fn base_of(symbol: &[u8]) -> (usize, bool) {
    match symbol {
        [versioned @ .., b'_', b'p', b't', b's', b'z'] | [versioned @ .., b'_', b'p', b't', b'd', b's'] => {
            (base_of(versioned).0, true)
        }
        [base @ .., b'_', b'v', b'0'..=b'9'] => (base.len(), false),
        base => (base.len(), false),
    }
}

const fn are_equal(one: &[u8], other: &[u8]) -> bool {
    match (one, other) {
        ([a, one @ ..], [b, other @ ..]) => *a == *b && are_equal(one, other),
        _ => one.is_empty() && other.is_empty(),
    }
}

/// Those of the driver, then those of NCCL.
pub const ENTRY_POINTS: &[EntryPointInfo] = &{
    const NONE: EntryPointInfo =
        EntryPointInfo { id: 0, symbol: Span::NONE, base: Span::NONE, since: 0, per_thread: false, class: Class::Init };
    let mut all = [NONE; ROWS.len()];
    let mut symbol = Span::NONE;
    let mut index = 0;
    while index < all.len() {
        let Row { id, symbol: name, since, class } = ROWS[index];
        symbol = if index == DRIVER_ROWS.len() { Span::NONE } else { symbol }.next(name.len());
        let (base, per_thread) = base_of(name.as_bytes());
        all[index] =
            EntryPointInfo { id, symbol, base: Span { length: base as u8, ..symbol }, since, per_thread, class };
        index += 1;
    }
    all
};

pub const DRIVER_ENTRY_POINTS: &[EntryPointInfo] = ENTRY_POINTS.split_at(DRIVER_ROWS.len()).0;

pub const NCCL_ENTRY_POINTS: &[EntryPointInfo] = ENTRY_POINTS.split_at(DRIVER_ROWS.len()).1;

/// More than the largest id; the table below holds that.
const IDS: usize = 1024;

/// The index of each id's entry point; past the end where there is none.
static BY_ID: [u16; IDS] = {
    let mut table = [u16::MAX; IDS];
    let mut index = 0;
    while index < ENTRY_POINTS.len() {
        table[ENTRY_POINTS[index].id as usize] = index as u16;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::HashSet;

    #[test]
    fn each_entry_point_has_the_names_of_its_row() {
        assert_eq!(ENTRY_POINTS.len(), ROWS.len());
        for (entry_point, row) in ENTRY_POINTS.iter().zip(ROWS) {
            assert_eq!(entry_point.symbol(), row.symbol);
            assert!(row.symbol.starts_with(entry_point.base()));
            assert_eq!(EntryPoint::named(row.symbol).id(), row.id);
        }
        for (symbol, base, per_thread) in [
            ("cuInit", "cuInit", false),
            ("cuStreamWaitValue64_v2", "cuStreamWaitValue64", false),
            ("cuLaunchKernel_ptsz", "cuLaunchKernel", true),
            ("cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD", true),
        ] {
            let info = EntryPoint::named(symbol).info();
            assert_eq!((info.base(), info.per_thread), (base, per_thread));
        }
    }

    #[test]
    fn ids_and_symbols_are_unique() {
        let ids: HashSet<_> = ENTRY_POINTS.iter().map(|f| f.id).collect();
        let symbols: HashSet<_> = ENTRY_POINTS.iter().map(|f| f.symbol()).collect();
        assert_eq!(ids.len(), ENTRY_POINTS.len());
        assert_eq!(symbols.len(), ENTRY_POINTS.len());
        for (index, entry_point) in ENTRY_POINTS.iter().enumerate() {
            assert_eq!(EntryPoint::by_id(entry_point.id).map(EntryPoint::index), Some(index));
        }
        assert_eq!((EntryPoint::by_id(0), EntryPoint::by_id(u16::MAX)), (None, None));
    }

    #[test]
    fn a_request_gets_the_newest_form_of_its_age_and_convention() {
        let check = |base: &str, version, per_thread, expect: Option<&str>| {
            let got = EntryPoint::by_request(base.as_bytes(), version, per_thread).map(EntryPoint::symbol);
            assert_eq!(got, expect, "{base} {version} {per_thread}");
        };
        check("cuGetProcAddress", 11030, false, Some("cuGetProcAddress"));
        check("cuGetProcAddress", 13000, false, Some("cuGetProcAddress_v2"));
        check("cuMemcpyHtoDAsync", 3020, false, Some("cuMemcpyHtoDAsync_v2"));
        check("cuMemcpyHtoDAsync", 7000, true, Some("cuMemcpyHtoDAsync_v2_ptsz"));
        check("cuLaunchKernel", 3000, false, None);
        check("cuModuleGetFunction", 13000, true, Some("cuModuleGetFunction"));
        check("cuCtxSynchronize", 12090, false, Some("cuCtxSynchronize"));
        check("cuCtxSynchronize", 13000, false, Some("cuCtxSynchronize_v2"));
        check("cudnnCreate", 13000, false, None);
    }
}
