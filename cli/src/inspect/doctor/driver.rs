//! The driver: which library a program would get, of which release, and what the guard can do with it.
//!
//! Must not: load the driver. Its table of exports says what it offers.

use super::finding::Findings;
use super::loader::{Answer, ABSENT};
use super::machine::Machine;
use crate::machine::{machine_name, own_machine, says, Elf};
use lazyguard_core::api::DRIVER_ENTRY_POINTS;
use std::path::{Path, PathBuf};

pub(super) const NAME: &str = "libcuda.so.1";

/// Folders of drivers that are not on the linker's search path: WSL, containers, some distributions.
const HIDDEN: [&str; 5] = [
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
    "/usr/lib64/nvidia",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
];

const INSTALL_AGAIN: &str = "install the driver again, or mend the file's permissions";

struct Feature {
    needs: &'static [&'static str],
    since: &'static str,
    can: &'static str,
    cannot: &'static str,
    release: u32,
}

const FEATURES: [Feature; 5] = [
    Feature {
        needs: &["cuModuleGetLoadingMode"],
        since: "11.7",
        can: "loading is lazy where that is asked for, and small CUDA runtime instances can be told to register at start",
        cannot: "it has no lazy loading: there is nothing to preload, and nothing to prevent",
        release: 515,
    },
    Feature {
        needs: &["cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction"],
        since: "12.0",
        can: "kernels are loaded by library",
        cannot: "there are no libraries: functions of modules are loaded as they are resolved",
        release: 525,
    },
    Feature {
        needs: &[
            "cuLibraryGetKernelCount",
            "cuLibraryEnumerateKernels",
            "cuModuleGetFunctionCount",
            "cuModuleEnumerateFunctions",
        ],
        since: "12.4",
        can: "the kernels of a library and the functions of a module can be listed, and loaded before anybody asks for them",
        cannot: "a library's kernels and a module's functions cannot be listed: each is loaded only once the program has got \
                 hold of it, which may be too late",
        release: 550,
    },
    Feature {
        needs: &["cuFuncLoad", "cuFuncIsLoaded"],
        since: "12.4",
        can: "a function can be loaded without a launch, and be asked whether it is loaded",
        cannot: "a function of a module cannot be loaded without a launch",
        release: 550,
    },
    Feature {
        needs: &["cuCtxRecordEvent"],
        since: "12.5",
        can: "a context can be asked as a whole whether it is idle",
        cannot: "a context cannot be asked as a whole whether it is idle: its streams are asked one by one, and another \
                 thread's per-thread default stream counts as busy until a synchronize shows that it is not",
        release: 555,
    },
];

pub(super) struct Driver {
    pub file: PathBuf,
    pub elf: Elf,
    pub release: Option<String>,
    /// The simulated driver has no devices, and needs none.
    pub is_simulated: bool,
}

/// A release of the driver, such as 580.159.04: numbers with points between them. `libcuda.so.1.1` of WSL is none.
fn release(text: &str) -> Option<String> {
    let numbers: Vec<u32> = text.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    (numbers.len() >= 2 && numbers[0] >= 100).then(|| text.to_owned())
}

fn branch(release: &str) -> u32 {
    release.split('.').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

fn release_of_file(file: &Path) -> Option<String> {
    release(file.file_name()?.to_str()?.strip_prefix("libcuda.so.")?)
}

pub(super) fn look(
    machine: &Machine,
    preloaded: &Answer,
    linked: Option<PathBuf>,
    found: &mut Findings,
) -> Option<Driver> {
    let path = linked.map_or_else(|| preloaded.file(NAME), Ok).map_err(|why| none(machine, why, found)).ok()?;
    let file = path.canonicalize().unwrap_or_else(|_| path.clone());
    let mut unreadable = |error| found.problem(format!("{} {error}", file.display()), INSTALL_AGAIN);
    let elf = Elf::read(&file).map_err(&mut unreadable).ok()?;
    let driver =
        Driver { is_simulated: says(&file, "LGSIM_DRIVER_VERSION"), release: release_of_file(&file), file, elf };
    if is_stub(&driver.file) || is_stub(&path) {
        let what = "a stub to link against, and no driver: a program that loads it gets CUDA_ERROR_STUB_LIBRARY";
        found.obstacle(
            format!("{} is {what}", path.display()),
            "take the folder of stubs out of LD_LIBRARY_PATH and of the linker's configuration",
        );
        return None;
    }
    let release = driver.release.as_ref().map(|release| format!(", release {release}")).unwrap_or_default();
    let what = format!("{}{release}", driver.file.display());
    if driver.is_simulated {
        found.note(
            format!("{what} is LazyGuard's simulated driver: nothing runs on a GPU"),
            "to use a real one, take its folder out of LD_LIBRARY_PATH",
        );
    } else {
        found.ok(what);
        versions(machine, &driver, found);
    }
    features(&driver, found);
    Some(driver)
}

fn none(machine: &Machine, why: &str, found: &mut Findings) {
    if !why.starts_with(ABSENT) {
        return found.problem(format!("{NAME} cannot be loaded: {why}"), INSTALL_AGAIN);
    }
    let hidden = HIDDEN.iter().map(|folder| machine.at(folder)).find(|folder| folder.join(NAME).exists());
    let (what, todo) = match &hidden.as_ref().map(|folder| folder.display()) {
        Some(folder) => (
            format!("{NAME} is in {folder}, where the dynamic linker does not look"),
            format!("set LD_LIBRARY_PATH={folder}, or name the folder in /etc/ld.so.conf.d and run ldconfig"),
        ),
        None => (
            format!(
                "there is no {NAME} for {} here: nothing can be said of what the guard can do",
                machine_name(own_machine())
            ),
            "install NVIDIA's driver; in a container, start it with the NVIDIA container toolkit (--gpus all)"
                .to_owned(),
        ),
    };
    found.obstacle(what, todo);
}

/// CUDA toolkits have a stub of the driver, for linking on machines without one, in a folder of this name.
fn is_stub(path: &Path) -> bool {
    path.parent().is_some_and(|folder| folder.ends_with("stubs"))
}

fn versions(machine: &Machine, driver: &Driver, found: &mut Findings) {
    let is_compat = || driver.file.components().any(|part| part.as_os_str() == "compat");
    let module = machine.text("/proc/driver/nvidia/version").as_deref().and_then(module_release);
    match (&driver.release, module) {
        (Some(library), Some(module)) if *library == module => {
            found.ok(format!("the kernel module is of the same release, {module}"));
        }
        (Some(library), Some(module)) if is_compat() && branch(library) >= branch(&module) => found.note(
            format!("{library} is a forward-compatibility package on a kernel module of release {module}"),
            "none if it starts (below); only data-centre GPUs take it, others answer error 804",
        ),
        (Some(library), Some(module)) => found.problem(
            format!(
                "the library is of release {library}, the kernel module of release {module}: cuInit answers error 803"
            ),
            "restart the machine after an update of the driver; in a container, do not install a driver of its own",
        ),
        (None, Some(module)) => found.ok(format!("the kernel module is of release {module}")),
        (_, None) if machine.at("/dev/dxg").exists() => {
            found.ok("the kernel's part is that of WSL (/dev/dxg)");
        }
        (_, None) => found.note(
            "no NVIDIA kernel module is loaded (/proc/driver/nvidia/version is not there): the driver cannot start",
            "load it (modprobe nvidia); in a container, start it with the NVIDIA container toolkit (--gpus all)",
        ),
    }
}

fn module_release(text: &str) -> Option<String> {
    text.lines().find(|line| line.starts_with("NVRM"))?.split_ascii_whitespace().find_map(release)
}

fn features(driver: &Driver, found: &mut Findings) {
    let newest = DRIVER_ENTRY_POINTS
        .iter()
        .filter(|entry_point| driver.elf.exports(entry_point.symbol()))
        .map(|entry_point| entry_point.since)
        .max()
        .unwrap_or(0);
    if newest == 0 {
        return found.problem(
            format!("{} exports no driver function that the guard knows", driver.file.display()),
            "see whether this is NVIDIA's driver",
        );
    }
    let mut cannot = false;
    for feature in &FEATURES {
        if feature.needs.iter().all(|symbol| driver.elf.exports(symbol)) {
            found.ok(feature.can);
            continue;
        }
        let until_then = match std::mem::replace(&mut cannot, true) || feature.since == "11.7" {
            true => "",
            false => "; until then CUDA_MODULE_LOADING=EAGER for programs that hang",
        };
        let todo = format!("update the driver to {} or newer{until_then}", feature.release);
        found.note(format!("before CUDA {}: {}", feature.since, feature.cannot), todo);
    }
    let newer = newer_than_this_build(&driver.elf);
    if !newer.is_empty() {
        let what = "these are newer versions of functions than this build knows, and pass untouched";
        found.note(
            format!("{what}: {}", newer.join(", ")),
            "take a newer LazyGuard if a program uses them (`asked of the driver and not followed` in its summary)",
        );
    }
    // Lazy loading became the default with the driver of CUDA 12.2.
    if driver.release.as_ref().is_some_and(|release| (515..535).contains(&branch(release))) {
        found.note(
            "before CUDA 12.2: without CUDA_MODULE_LOADING=LAZY the driver loads everything at start",
            "none: there is nothing to prevent then",
        );
    }
}

/// Exports that are newer versions of functions in the table: `cuLaunchKernelEx_v3` where the newest known one is older.
fn newer_than_this_build(driver: &Elf) -> Vec<String> {
    let version = |symbol: &str| -> (String, u32) {
        let plain = symbol.trim_end_matches("_ptsz").trim_end_matches("_ptds");
        match plain.rsplit_once("_v").and_then(|(base, version)| Some((base, version.parse().ok()?))) {
            Some((base, version)) => (base.to_owned(), version),
            None => (plain.to_owned(), 1),
        }
    };
    let known: Vec<_> = DRIVER_ENTRY_POINTS.iter().map(|entry_point| version(entry_point.symbol())).collect();
    let mut newer: Vec<_> = driver
        .symbols
        .iter()
        .filter(|symbol| symbol.defined && symbol.is_the_drivers())
        .filter(|symbol| {
            let (base, number) = version(&symbol.name);
            let known = known.iter().filter(|(known, _)| *known == base).map(|(_, number)| *number).max();
            known.is_some_and(|known| number > known)
        })
        .map(|symbol| symbol.name.clone())
        .collect();
    newer.sort();
    newer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_read_from_the_files_name_and_from_the_kernel_modules_line() {
        let of_file = |name: &str| release_of_file(Path::new(name));
        assert_eq!(of_file("/usr/lib/libcuda.so.580.159.04").as_deref(), Some("580.159.04"));
        assert_eq!(of_file("/usr/lib/libcuda.so.550.54").as_deref(), Some("550.54"));
        assert_eq!(of_file("/usr/lib/wsl/lib/libcuda.so.1.1"), None);
        assert_eq!(of_file("/target/simdriver/libcuda.so.1"), None);
        for text in [
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Wed Mar  4 05:34:51 UTC 2026\nGCC version:  gcc version 12.2.0\n",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs-builder)\n",
        ] {
            assert_eq!(module_release(text).as_deref(), Some("580.159.04"));
        }
        assert_eq!(module_release("GCC version: 12.2.0"), None);
    }

    #[test]
    fn every_function_that_a_feature_needs_is_one_that_the_guard_calls_or_follows() {
        let source = include_str!("../../../../shim/src/lookup/driver.rs");
        for symbol in FEATURES.iter().flat_map(|feature| feature.needs) {
            let followed = DRIVER_ENTRY_POINTS.iter().any(|entry_point| entry_point.symbol() == *symbol);
            assert!(followed || source.contains(&format!("c\"{symbol}\"")), "{symbol}");
        }
    }

    fn said(machine: &Machine, file: &str, release: Option<&str>) -> (crate::inspect::doctor::finding::Level, String) {
        // Any file will do, and this program's own takes a second.
        let loaded = lazyguard_core::stack::modules(&lazyguard_core::stack::own_maps());
        let library = loaded.iter().find(|module| module.name().starts_with("libc.")).unwrap();
        let elf = Elf::read(Path::new(&library.path)).unwrap();
        let release = release.and_then(super::release);
        let driver = Driver { file: PathBuf::from(file), elf, release, is_simulated: false };
        let mut found = Findings::default();
        versions(machine, &driver, &mut found);
        (found.all()[0].level, found.all()[0].what.clone())
    }

    #[test]
    fn a_library_and_a_kernel_module_of_two_releases_are_a_problem_unless_that_is_meant() {
        use crate::inspect::doctor::finding::Level;
        let root = std::env::temp_dir().join(format!("lazyguard-doctor-versions-{}", std::process::id()));
        std::fs::create_dir_all(root.join("proc/driver/nvidia")).unwrap();
        let line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10  Wed\n";
        std::fs::write(root.join("proc/driver/nvidia/version"), line).unwrap();
        let machine = Machine::played(&root, &[]);
        assert_eq!(said(&machine, "/usr/lib/libcuda.so.570.86.10", Some("570.86.10")).0, Level::Ok);
        let (level, what) = said(&machine, "/usr/lib/libcuda.so.580.1.2", Some("580.1.2"));
        assert!(level == Level::Problem && what.contains("570.86.10") && what.contains("580.1.2"), "{what}");
        assert_eq!(said(&machine, "/usr/local/cuda/compat/libcuda.so.580.1.2", Some("580.1.2")).0, Level::Note);
        assert_eq!(said(&machine, "/usr/local/cuda/compat/libcuda.so.560.1.2", Some("560.1.2")).0, Level::Problem);
        assert_eq!(said(&machine, "/usr/lib/wsl/lib/libcuda.so.1.1", None).0, Level::Ok);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(said(&machine, "/usr/lib/libcuda.so.570.86.10", Some("570.86.10")).0, Level::Note);
    }
}
