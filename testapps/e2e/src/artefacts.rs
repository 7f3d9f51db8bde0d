//! The paths of the built artefacts.

use std::path::{Path, PathBuf};

/// The repository's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// The folder of built things: `target`, or what `E2E_TARGET` names, to try a copy of it.
pub fn target() -> PathBuf {
    std::env::var_os("E2E_TARGET").map_or_else(|| root().join("target"), PathBuf::from)
}

/// How many times slower than this machine's what is tested runs: `E2E_SLOWER`, for an emulator; else once.
pub fn slower() -> u32 {
    std::env::var("E2E_SLOWER").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

fn built(path: PathBuf) -> PathBuf {
    assert!(path.is_file(), "{} is not there; scripts/build makes it", path.display());
    path
}

/// The folder of the guard's two files: `target/debug`, or `tested` or `release` where `GUARD_BUILD` says so (scripts/lib/rust_build.py).
fn guard() -> PathBuf {
    target().join(std::env::var_os("GUARD_BUILD").unwrap_or_else(|| "debug".into()))
}

/// The guard.
pub fn library() -> PathBuf {
    built(guard().join("liblazyguard.so"))
}

/// The command.
pub fn command() -> PathBuf {
    built(guard().join("lazyguard"))
}

/// The simulated driver's folder.
pub fn driver_folder() -> PathBuf {
    target().join("simdriver")
}

/// The simulated driver.
pub fn driver() -> PathBuf {
    built(driver_folder().join("libcuda.so.1"))
}

/// A driver-API program.
pub fn app(name: &str) -> PathBuf {
    built(target().join("apps").join(name))
}

/// A hostile program.
pub fn hostile_program(name: &str) -> PathBuf {
    built(target().join("hostile").join(name))
}

/// A program on NVIDIA's runtime 13.0: of `runtime` with the static one, of `runtime-shared` with the shared one.
pub fn runtime_program(folder: &str, name: &str) -> PathBuf {
    built(target().join(folder).join(name))
}

/// NVIDIA's shared runtime of a version other than 13.0.
pub fn cuda_runtime(version: &str) -> PathBuf {
    let name = if version.starts_with("11.") { "libcudart.so.11.0" } else { "libcudart.so.12" };
    let path = target().join("cuda-versions").join(version).join("lib").join(name);
    assert!(path.is_file(), "{} is not there; scripts/fetch-cuda-versions fetches it", path.display());
    path
}

/// A program for the tests of stacks.
pub fn stack_program(name: &str) -> PathBuf {
    built(target().join("stacks").join(name))
}

/// A program of the corpus.
pub fn corpus_program(name: &str) -> PathBuf {
    built(target().join("corpus").join(name))
}
