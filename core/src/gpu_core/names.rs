//! Texts in a core, which may be anything.
//!
//! Must not: escape them; who prints a line does.

const MOST: usize = 1 << 16;

pub(super) fn name_at(names: &[u8], at: u64) -> Option<String> {
    let name = names.get(usize::try_from(at).ok()?..)?.split(|&byte| byte == 0).next().unwrap_or_default();
    (!name.is_empty()).then(|| text(name))
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..MOST).unwrap_or(bytes)).into_owned()
}
