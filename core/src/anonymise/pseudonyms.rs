//! The pseudonyms of names: the same for the same name, in all recordings of one job.
//!
//! Must not: keep a part of a name that the program's author may have chosen.

use crate::demangle::demangle;
use crate::map::HashMap;
use crate::replay::part_of_waiting;
use crate::settings::Settings;

/// How the names of kernels begin that public libraries have chosen: NCCL, PyTorch, CUTLASS, cuBLAS, cuDNN, and PyTorch's compiler.
const PUBLIC: [&str; 8] =
    ["ncclDevKernel", "ncclKernel_", "ncclSym", "at::native::", "cutlass", "cublas", "cudnn", "triton_"];

/// The settings on which a verdict or a report depends. Their values are no free text.
const SETTINGS: [&str; 2] = ["LAZYGUARD_HANG_AFTER", "LAZYGUARD_PRELOAD"];

#[derive(Debug, Default)]
pub struct Pseudonyms {
    keep_kernel_names: bool,
    numbers: HashMap<&'static str, HashMap<String, usize>>,
}

impl Pseudonyms {
    pub fn new(keep_kernel_names: bool) -> Self {
        Self { keep_kernel_names, ..Self::default() }
    }

    /// From 1.
    pub(super) fn number(&mut self, what: &'static str, name: &str) -> usize {
        let known = self.numbers.entry(what).or_default();
        let next = known.len() + 1;
        *known.entry(name.to_owned()).or_insert(next)
    }

    pub(super) fn of(&mut self, what: &'static str, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        format!("{what} {}", self.number(what, name))
    }

    /// A kernel of a public library keeps its name without the program's types; another one keeps the part by which it waits for peers.
    pub(super) fn kernel(&mut self, name: &str) -> String {
        if self.keep_kernel_names {
            return name.to_owned();
        }
        let whole = demangle(name).replace("(anonymous namespace)::", "");
        let end =
            whole.find(|letter: char| !letter.is_ascii_alphanumeric() && !"_:".contains(letter)).unwrap_or(whole.len());
        match (&whole[..end], part_of_waiting(name)) {
            (public, _) if PUBLIC.iter().any(|start| public.starts_with(start)) => match end < whole.len() {
                // Kernels that differ in their types alone stay different.
                true => format!("{public}<{}>", self.number("types of a kernel", name)),
                false => public.to_owned(),
            },
            (_, Some(part)) => format!("kernel {} ({part})", self.number("kernel", name)),
            (_, None) => self.of("kernel", name),
        }
    }
}

pub(super) fn rank(rank: &str) -> String {
    kept(rank, |letter| letter.is_ascii_digit())
}

pub(super) fn version(version: &str) -> String {
    kept(version, |letter| letter.is_ascii_digit() || letter == '.')
}

fn kept(text: &str, letter: fn(char) -> bool) -> String {
    Some(text).filter(|text| text.chars().all(letter)).unwrap_or_default().to_owned()
}

pub(super) fn setting(setting: &str) -> Option<&str> {
    let (name, value) = setting.split_once('=')?;
    let (_, complaints) = Settings::read([(name, value)].into_iter());
    (SETTINGS.contains(&name) && complaints.is_empty()).then_some(setting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_pseudonym_and_no_name_none() {
        let mut pseudonyms = Pseudonyms::default();
        let hosts = ["a", "b", "a", ""].map(|name| pseudonyms.of("host", name));
        assert_eq!(hosts, ["host 1", "host 2", "host 1", ""]);
        assert_eq!(
            (pseudonyms.of("thread", "a"), pseudonyms.of("group", "a")),
            ("thread 1".to_owned(), "group 1".to_owned())
        );
    }

    #[test]
    fn of_the_name_of_a_kernel_only_what_a_public_library_has_chosen_is_kept() {
        let mut pseudonyms = Pseudonyms::default();
        for (name, expect) in [
            (
                "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            ),
            ("_ZN2at6native13reduce_kernelILi512EEEvv", "at::native::reduce_kernel<1>"),
            ("_ZN2at6native13reduce_kernelI6secretEEvv", "at::native::reduce_kernel<2>"),
            ("_ZN2at6native13reduce_kernelILi512EEEvv", "at::native::reduce_kernel<1>"),
            (
                "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelI6secretEEvT_",
                "at::native::multi_tensor_apply_kernel<3>",
            ),
            ("_ZN7cutlass6KernelI6secretEEvv", "cutlass::Kernel<4>"),
            ("cutlass_80_tensorop_s1688gemm", "cutlass_80_tensorop_s1688gemm"),
            ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
            ("triton_poi_fused_add_0 secret", "triton_poi_fused_add_0<5>"),
            ("_Z6secretv", "kernel 1"),
            ("secret_ncclDevKernelish", "kernel 2 (ncclDevKernel)"),
            ("_Z6secretv", "kernel 1"),
            ("", ""),
        ] {
            assert_eq!(pseudonyms.kernel(name), expect, "{name}");
        }
        assert_eq!(Pseudonyms::new(true).kernel("_Z6secretv"), "_Z6secretv");
    }

    #[test]
    fn a_text_of_the_environment_is_kept_only_in_its_own_form() {
        assert_eq!((rank("17"), rank("17 of Ann's"), version("0.1.0"), version("0.1.0-ann")), {
            ("17".to_owned(), String::new(), "0.1.0".to_owned(), String::new())
        });
        for (text, expect) in [
            ("LAZYGUARD_HANG_AFTER=5s", true),
            ("LAZYGUARD_HANG_AFTER=ann", false),
            ("LAZYGUARD_PRELOAD=auto", true),
            ("LAZYGUARD_OUT=/home/ann", false),
            ("LAZYGUARD_ON_HANG=command:ann", false),
            ("HOME=/home/ann", false),
            ("LAZYGUARD_HANG_AFTER", false),
        ] {
            assert_eq!(setting(text).is_some(), expect, "{text}");
        }
    }
}
