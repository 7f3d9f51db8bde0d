//! GPU core dumps: where the driver must not be asked for one, and when a file is whole.
//!
//! The driver writes such a dump by its debugger interface, to which a debugger, another tool, the server of MPS and the host of a virtual GPU
//! have a claim of their own.

use crate::image::number;

const INJECTION: &str = "CUDA_INJECTION64_PATH";
const DEBUGGER: &str = "CUDBG_";
/// The variable with MPS's folder, its default, and the file in it by which clients find the server.
pub const MPS_FOLDER: (&str, &str, &str) = ("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps", "control");

pub const LONGEST_PATH: usize = 1023;

/// The common prefix of the variables of [`is_of_a_tool`].
pub const OF_TOOLS: &str = "CUD";

/// Whether [`obstacle`], or where MPS is, depends on this variable.
pub fn is_of_a_tool(name: &str) -> bool {
    name == INJECTION || name == MPS_FOLDER.0 || name.starts_with(DEBUGGER)
}

/// Why the driver is not asked for GPU core dumps, by the names of the variables, `/proc/self/status`, and whether there is a server of MPS.
pub fn obstacle<'a>(mut variables: impl Iterator<Item = &'a str>, status: &str, mps: bool) -> Option<String> {
    let traced = || status.lines().find_map(|line| line.strip_prefix("TracerPid:")).map(str::trim);
    if let Some(name) = variables.find(|name| *name == INJECTION || name.starts_with(DEBUGGER)) {
        return Some(format!("{name} is set: another tool is in the driver"));
    }
    match traced() {
        Some(tracer) if tracer != "0" => Some(format!("process {tracer} traces this one, as a debugger does")),
        _ => mps.then(|| "the device is shared by MPS".to_owned()),
    }
}

/// Whether a device is virtual, by its name: `NVIDIA A40-8Q`, `GRID A100-10C`, `NVIDIA A100-1-5C`.
pub fn is_virtual(device: &str) -> bool {
    let profile = device.rsplit_once('-').map_or("", |(_, profile)| profile);
    let size = profile.strip_suffix(['A', 'B', 'C', 'Q']).unwrap_or_default();
    !size.is_empty() && size.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a file that begins so is an ELF file whose table of sections lies within it: the driver writes the table last.
pub fn is_whole(head: &[u8], size: u64) -> bool {
    let number = |at, bytes| number(head, at, bytes);
    let end = || {
        // With too many sections for the field, the count is in the first one.
        let (table, entry, count) = (number(0x28, 8)?, number(0x3a, 2)?, number(0x3c, 2)?.max(1));
        (table != 0).then(|| table.saturating_add(entry * count))
    };
    head.starts_with(b"\x7fELF\x02") && end().is_some_and(|end| end <= size)
}

/// The bytes that [`is_whole`] looks at.
pub const HEAD: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_tool_in_the_driver_is_an_obstacle() {
        let status = |tracer: u32| format!("Name:\tapp\nTracerPid:\t{tracer}\nUid:\t0\n");
        let why = |variables: &[&str], tracer, mps| obstacle(variables.iter().copied(), &status(tracer), mps);
        assert_eq!(why(&["CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "PATH"], 0, false), None);
        assert!(
            why(&["PATH", "CUDA_INJECTION64_PATH"], 0, false).is_some_and(|why| why.contains("CUDA_INJECTION64_PATH"))
        );
        assert!(why(&["CUDBG_USE_LEGACY_DEBUGGER"], 0, false).is_some());
        assert!(why(&[], 4242, false).is_some_and(|why| why.contains("4242")));
        assert!(why(&[], 0, true).is_some_and(|why| why.contains("MPS")));
        assert_eq!(obstacle([].into_iter(), "", false), None);
        assert!([INJECTION, MPS_FOLDER.0, DEBUGGER].iter().all(|name| name.starts_with(OF_TOOLS)));
    }

    #[test]
    fn a_virtual_gpu_is_known_by_its_profile() {
        for name in ["NVIDIA A40-8Q", "GRID A100-10C", "NVIDIA A100-1-5C", "GRID T4-2B", "NVIDIA L40S-4A"] {
            assert!(is_virtual(name), "{name}");
        }
        for name in
            ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "Tesla T4", "NVIDIA A10", "", "-Q", "Quadro RTX-A"]
        {
            assert!(!is_virtual(name), "{name}");
        }
    }

    #[test]
    fn a_dump_is_whole_once_its_table_of_sections_is_there() {
        let head = |table: u64, count: u16| {
            let mut head = [0; HEAD];
            head[..5].copy_from_slice(b"\x7fELF\x02");
            head[0x28..0x30].copy_from_slice(&table.to_le_bytes());
            head[0x3a..0x3c].copy_from_slice(&64u16.to_le_bytes());
            head[0x3c..0x3e].copy_from_slice(&count.to_le_bytes());
            head
        };
        assert!(is_whole(&head(1000, 10), 1640) && !is_whole(&head(1000, 10), 1639));
        assert!(is_whole(&head(1000, 0), 1064) && !is_whole(&head(1000, 0), 1063));
        assert!(!is_whole(&head(0, 10), 1640), "the table is not placed yet");
        assert!(!is_whole(&head(u64::MAX, 10), u64::MAX - 1) && !is_whole(b"\x7fELF\x02", 5) && !is_whole(b"", 0));
        let mut other = head(1000, 10);
        other[4] = 1;
        assert!(!is_whole(&other, 1640));
    }
}
