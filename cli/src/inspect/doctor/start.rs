//! Whether the driver starts. A child process tries it (this command, with an argument of the doctor's alone), so that a driver that crashes or
//! hangs costs one line. It finds the doctor's driver through a link, without the guard.
//!
//! Must not: call the driver in this process.

use super::driver::Driver;
use super::finding::Findings;
use crate::machine::files;
use crate::words::{print, Outcome};
use cudarc::driver::result::{self, device, DriverError};
use lazyguard_core::order::grouped;
use lazyguard_core::run_folder::private_bases;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(5);

pub(super) const ARGUMENT: &str = "--start-driver";

const ADVICE: [(i32, &str); 8] = [
    (3, "see that nothing has CUDA shut down: LD_PRELOAD, CUDA_INJECTION64_PATH"),
    (34, "take the folder of stubs out of LD_LIBRARY_PATH"),
    (100, "see that a GPU is there and visible: nvidia-smi, CUDA_VISIBLE_DEVICES; in a container --gpus all"),
    (101, "see that CUDA_VISIBLE_DEVICES names devices that are there"),
    (802, "start the fabric manager (nvidia-fabricmanager), which this machine's GPUs need"),
    (803, "library and kernel module are of two releases: restart the machine after an update of the driver"),
    (804, "take the forward-compatibility package (cuda-compat) away: these GPUs do not allow it"),
    (999, "see the kernel's log (dmesg) for NVRM lines; nvidia-modprobe -u loads the module for memory, if that is missing"),
];

pub(super) fn look(driver: &Driver, limit: Duration, found: &mut Findings) -> Vec<String> {
    if cfg!(target_feature = "crt-static") {
        found.note(
            "whether the driver starts was not tried: this command is linked statically, and can load no library",
            "run a program that uses CUDA, such as nvidia-smi",
        );
        return Vec::new();
    }
    let begin = Instant::now();
    match tried(driver, limit) {
        Ok(Tried { status: None, .. }) => found.obstacle(format!("the driver does not start: its cuInit has not returned within {limit:?}"),
            "see the kernel's log (dmesg) for NVRM lines, and whether nvidia-smi answers; or give it longer (--start-limit)",
        ),
        Ok(Tried { status: Some(status), said, complained }) => match answer(&said) {
            Some(Answer::Started(names)) if status.success() => {
                let took = begin.elapsed().as_millis();
                found.ok(format!("the driver starts, in {took} ms: {}", devices(&names)));
                return names;
            }
            Some(Answer::Refused { call, code, name }) => {
                let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
                let todo = ADVICE.iter().find(|(known, _)| *known == code).map(|(_, todo)| *todo);
                found.obstacle(
                    format!("the driver does not start: {call} answers error {code}{name}"),
                    todo.unwrap_or("see NVIDIA's documentation of the error"),
                );
            }
            _ => {
                let by_signal = status.signal().map(|signal| format!("was ended by signal {signal}"));
                let ending = by_signal.unwrap_or_else(|| format!("ended with status {}", status.code().unwrap_or(-1)));
                found.obstacle(
                    format!("the driver does not start: the process that tried it {ending}{complained}"),
                    "see the kernel's log (dmesg) for NVRM lines; install the driver again",
                );
            }
        },
        Err(error) => found.note(format!("whether the driver starts could not be tried: {error}"),
            "let this command start processes, and make folders in the folder for temporary files",
        ),
    }
    Vec::new()
}

struct Tried {
    status: Option<ExitStatus>,
    said: String,
    complained: String,
}

fn tried(driver: &Driver, limit: Duration) -> io::Result<Tried> {
    let folder = Folder::make()?;
    // cudarc opens this name first.
    std::os::unix::fs::symlink(&driver.file, folder.0.join("libcuda.so"))?;
    let mut path = folder.0.clone().into_os_string();
    if let Some(others) = std::env::var_os("LD_LIBRARY_PATH").filter(|others| !others.is_empty()) {
        path.push(":");
        path.push(others);
    }
    // Files, not pipes: a process that the driver starts could keep a pipe open after the child has ended.
    let (said, complained) = (folder.0.join("said"), folder.0.join("complained"));
    let mut child = Command::new(std::env::current_exe()?)
        .args(["doctor", ARGUMENT])
        .env("LD_LIBRARY_PATH", path)
        .env("LAZYGUARD", "off")
        .stdin(Stdio::null())
        .stdout(File::create(&said)?)
        .stderr(File::create(&complained)?)
        .spawn()?;
    let begin = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if begin.elapsed() >= limit => break None,
            None => std::thread::sleep(POLL),
        }
    };
    if status.is_none() {
        // The doctor does not wait for it: a process that is stuck in the kernel does not end.
        child.kill()?;
    }
    let complained = files::read_lossy(complained)?.lines().next().map(|line| format!(": {line}")).unwrap_or_default();
    Ok(Tried { status, said: files::read_lossy(said)?, complained })
}

struct Folder(PathBuf);

impl Folder {
    fn make() -> io::Result<Self> {
        // The guard itself would make its private folder there.
        let bases = private_bases(std::env::var_os("TMPDIR")).into_iter();
        let name = format!(".lazyguard-doctor-{}-driver", std::process::id());
        let made = bases.map(|base| base.join(&name)).find(|path| std::fs::create_dir(path).is_ok());
        made.map(Self).ok_or_else(|| io::Error::other("no folder for temporary files can be written to"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[derive(Serialize, Deserialize)]
enum Answer {
    Started(Vec<String>),
    Refused { call: String, code: i32, name: Option<String> },
}

fn answer(said: &str) -> Option<Answer> {
    said.lines().rev().find_map(|line| serde_json::from_str(line).ok())
}

fn devices(names: &[String]) -> String {
    let kinds = grouped(names, |name| *name).into_iter().map(|(name, same)| format!("{} x {name}", same.len()));
    kinds.reduce(|all, kind| all + ", " + &kind).unwrap_or_else(|| "no device".to_owned())
}

/// The child: starts the driver, and prints the results. An unknown result code kills the child at most.
pub(crate) fn child() -> Outcome {
    let say = |answer| print(|out| Ok(writeln!(out.raw(), "{}", serde_json::json!(answer))?));
    let (call, error) = match started() {
        Ok(names) => return say(Answer::Started(names)),
        Err(refused) => refused,
    };
    let refused = |name| Answer::Refused { call: call.to_owned(), code: error.0 as i32, name };
    // Without the name first: the driver may crash when asked for it.
    say(refused(None))?;
    say(refused(error.error_name().ok().map(|name| name.to_string_lossy().into_owned())))
}

fn started() -> Result<Vec<String>, (&'static str, DriverError)> {
    result::init().map_err(|error| ("cuInit", error))?;
    let count = device::get_count().map_err(|error| ("cuDeviceGetCount", error))?;
    let names = (0..count).map(|number| device::get(number).and_then(device::get_name));
    names.collect::<Result<_, _>>().map_err(|error| ("cuDeviceGetName", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_child_says_is_understood_and_half_a_word_is_nothing() {
        let Some(Answer::Started(names)) = answer("{\"Started\":[\"NVIDIA H200\",\"NVIDIA H200\"]}\n") else {
            panic!()
        };
        assert_eq!(devices(&names), "2 x NVIDIA H200");
        let refused =
            |name| serde_json::json!(Answer::Refused { call: "cuInit".to_owned(), code: 803, name }).to_string();
        let (nameless, named) = (refused(None), refused(Some("CUDA_ERROR_X".to_owned())));
        let said = answer(&format!("{nameless}\n{named}\n"));
        assert!(matches!(said, Some(Answer::Refused { code: 803, name: Some(_), .. })));
        assert!(matches!(answer(&format!("{nameless}\n{}", &named[..9])), Some(Answer::Refused { name: None, .. })));
        assert!(answer("{\"Started\":[\"NVIDIA H200").is_none() && answer("").is_none());
    }
}
