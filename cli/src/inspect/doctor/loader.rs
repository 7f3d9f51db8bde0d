//! The dynamic linker's own answer: which files it loads for a program and for `LD_PRELOAD` (`LD_TRACE_LOADED_OBJECTS`, as `ldd` asks). It runs
//! none of their code. With `--list` it would stop at the first library that is missing.
//!
//! Must not: ask another linker than glibc's, which may start the program instead.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// glibc's linker, for a library: only programs name theirs.
pub(super) const LOADER: &str =
    if cfg!(target_arch = "aarch64") { "/lib/ld-linux-aarch64.so.1" } else { "/lib64/ld-linux-x86-64.so.2" };

#[derive(Default)]
pub(super) struct Answer {
    /// The libraries, without the linker itself and the kernel's own object.
    pub found: Vec<(String, PathBuf)>,
    pub missing: Vec<String>,
    /// Names of `LD_PRELOAD` that the linker passes over, with its reasons.
    pub refused: Vec<(String, String)>,
    /// The linker gave no answer, or less than a whole one.
    pub failed: Option<String>,
}

/// Why the linker passes a name over for which it finds no file.
pub(super) const ABSENT: &str = "cannot open shared object file";

impl Answer {
    pub fn of(loader: &Path, file: &Path, preload: &str) -> Self {
        let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let mut asks = Command::new(loader);
        asks.arg(file)
            .env("LD_TRACE_LOADED_OBJECTS", "1")
            .env("LD_PRELOAD", preload)
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        // An auditor's code would run; a trace would stand among the answers.
        let asked = asks.env_remove("LD_AUDIT").env_remove("LD_DEBUG").output();
        match asked {
            Ok(output) => {
                let [listed, complained] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
                let failed =
                    output.status.signal().map(|signal| format!("the dynamic linker was ended by signal {signal}"));
                Self { failed, ..Self::read(&listed, &complained) }
            }
            Err(error) => {
                let failed = format!("the dynamic linker {} cannot be asked: {error}", loader.display());
                Self { failed: Some(failed), ..Self::default() }
            }
        }
    }

    fn read(listed: &str, complained: &str) -> Self {
        let mut answer = Self::default();
        for line in listed.lines().map(str::trim) {
            let (name, file) = line.split_once(" => ").unwrap_or((line, line));
            match file.rsplit_once(" (0x") {
                Some((file, _)) if file.contains('/') && !file.contains("/ld-linux") => {
                    let name = name.rsplit_once(" (0x").map_or(name, |(name, _)| name);
                    answer.found.push((name.to_owned(), PathBuf::from(file)));
                }
                None if file == "not found" => answer.missing.push(name.to_owned()),
                _ => {}
            }
        }
        for line in complained.lines() {
            let refused = line.split_once(" object '").and_then(|(_, rest)| rest.split_once("' from "));
            answer.refused.extend(refused.map(|(name, rest)| {
                let why = rest.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map_or(rest, |(why, _)| why);
                (name.to_owned(), why.to_owned())
            }));
        }
        answer
    }

    pub fn file(&self, name: &str) -> Result<PathBuf, &str> {
        if let Some((_, file)) = self.found.iter().find(|(found, _)| found == name) {
            return Ok(file.clone());
        }
        let refused = self.refused.iter().find(|(refused, _)| refused == name).map(|(_, why)| why.as_str());
        match refused.or(self.failed.as_deref()) {
            Some(why) => Err(why),
            // The linker lists a file once, by the first of its names.
            None if name.contains('/') => Ok(PathBuf::from(name)),
            None => Err(ABSENT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linkers_lines_are_read() {
        let listed = "\tlinux-vdso.so.1 (0x00007f446e032000)\n\t/opt/a b/liblazyguard.so (0x00007f446df6e000)\n\
                      \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f446da1e000)\n\tlibx.so => not found\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f446e034000)\n";
        let complained =
            "ERROR: ld.so: object 'libnope.so' from LD_PRELOAD cannot be preloaded (file too short): ignored.\n";
        let answer = Answer::read(listed, complained);
        assert_eq!(answer.file("libc.so.6"), Ok(PathBuf::from("/lib/x86_64-linux-gnu/libc.so.6")));
        assert_eq!(answer.file("/opt/a b/liblazyguard.so"), Ok(PathBuf::from("/opt/a b/liblazyguard.so")));
        assert_eq!(answer.file("libnope.so"), Err("file too short"));
        assert_eq!(
            (answer.file("libx.so"), answer.missing.as_slice()),
            (Err(ABSENT), ["libx.so".to_owned()].as_slice())
        );
        assert_eq!(answer.found.len(), 2);
        assert!(Answer::read("\tstatically linked\n", "").found.is_empty());
    }

    #[test]
    fn the_linker_of_this_machine_answers() {
        let answer = Answer::of(Path::new(LOADER), Path::new("/proc/self/exe"), "libno-such-library.so");
        assert!(answer.file("libc.so.6").is_ok_and(|file| file.is_file()), "{:?}", answer.found);
        assert!(answer.file("libno-such-library.so").unwrap_err().starts_with(ABSENT), "{:?}", answer.refused);
        let gone = Answer::of(Path::new("/nowhere/ld.so"), Path::new("/proc/self/exe"), "");
        assert!(gone.file("libc.so.6").is_err_and(|why| why.contains("/nowhere/ld.so cannot be asked")));
    }
}
