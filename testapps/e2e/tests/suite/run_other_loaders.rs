//! `lazyguard run` of programs that another loader than glibc's loads. The guard's library is of no use there, and the loader would end the
//! program or print errors. So such a program runs without it, and a line says so.

use crate::run_passes_on::under;
use lazyguard_e2e::{skipped, Run, Work};
use std::path::Path;
use std::process::Command;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/other_loaders.c");

/// A loader, and a program that it loads; `None`, and why, where they cannot be built or run.
fn built(work: &Work, name: &str, options: &[&str]) -> Option<(String, String)> {
    let path = |what: &str| work.path().join(format!("{name}-{what}")).display().to_string();
    let (loader, program) = (path("loader"), path("program"));
    let cc = |output: &str, more: &[&str]| {
        let mut cc = Command::new("cc");
        cc.args(["-w", "-nostdlib", "-fno-stack-protector", "-ffreestanding"]).args(options).args(more);
        cc.arg(SOURCE).args(["-o", output]).output().is_ok_and(|output| output.status.success())
    };
    let named = format!("-Wl,--dynamic-linker={loader}");
    let is_built = cfg!(target_arch = "x86_64")
        && cc(&loader, &["-fPIC", "-shared", "-Wl,-e,_start"])
        && cc(&program, &["-fPIE", "-pie", &named])
        && Command::new(&program).env_remove("LD_PRELOAD").output().is_ok_and(|output| output.status.success());
    if !is_built {
        skipped(&format!("needs a compiler and a kernel for such programs: {name}"));
    }
    is_built.then_some((loader, program))
}

fn write_script(work: &Work, name: &str, text: &str) -> String {
    let path = work.path().join(name);
    std::fs::write(&path, text).unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&path).status().is_ok_and(|status| status.success()));
    path.display().to_string()
}

#[test]
fn a_program_of_another_loader_runs_unguarded_and_one_line_says_so() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (name, options) in [("wide", &[][..]), ("narrow", &["-m32"])] {
        let Some((loader, program)) = built(&work, name, options) else { continue };
        let file = Path::new(&program).file_name().unwrap().to_string_lossy().into_owned();
        let scripts = [
            format!("#!{program}\n"),
            format!("#! {program} -x\n"),
            format!("#!/usr/bin/env {file}\n"),
            format!("#!/usr/bin/env -S A=1 {file} -x\n"),
        ];
        let mut starts: Vec<_> = scripts
            .iter()
            .enumerate()
            .map(|(n, text)| write_script(&work, &format!("{name}-script{n}"), text))
            .collect();
        starts.push(write_script(&work, &format!("{name}-script-of-a-script"), &format!("#!{}\n", starts[0])));
        starts.extend([program.clone(), file]);
        let path = format!("{}:/usr/bin:/bin", work.path().display());
        for start in starts {
            let bare = Run::new(&work, &start).set("PATH", &path).finish();
            let outcome = under(&work, &[], &[&start]).set("PATH", &path).finish();
            assert_eq!((bare.code, bare.stdout.as_str()), (Some(0), "it ran\n"), "{bare}");
            assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "it ran\n"), "{start}: {outcome}");
            let why = if name == "wide" {
                format!("is loaded by {loader}, which is not glibc's")
            } else {
                "is a program of 32 bits".to_owned()
            };
            let line = format!(
                "lazyguard: {program} {why}: the guard's library cannot be loaded there, and it runs unguarded\n"
            );
            assert_eq!(outcome.stderr, line, "{start}: {outcome}");
        }
        // What the user preloads himself stays the loader's business.
        let outcome = under(&work, &[], &[&program]).set("LD_PRELOAD", "/no/such/library.so").finish();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(127), "cannot load\n"), "{outcome}");
    }
}

/// The loader of another machine's programs would say that the library is for the wrong one.
#[test]
fn a_program_for_another_machine_is_not_given_the_library() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = work.path().join("foreign").display().to_string();
    let mut file = std::fs::read("/bin/true").unwrap();
    // The machine, which no kernel runs.
    file[18..20].copy_from_slice(&[0xfe, 0xca]);
    std::fs::write(&program, file).unwrap();
    assert!(Command::new("chmod").args(["+x", &program]).status().is_ok_and(|status| status.success()));
    let outcome = under(&work, &[], &[&program]).finish();
    assert!(
        outcome.stderr.contains("is a program for machine 51966: the guard's library cannot be loaded there"),
        "{outcome}"
    );
}

/// With musl, whose loader ends a program with a library that it cannot load.
#[test]
fn a_program_of_musl_runs() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = work.path().join("hello").display().to_string();
    let source = work.path().join("hello.c");
    std::fs::write(&source, "#include <stdio.h>\nint main(void) { puts(\"it ran\"); return 3; }\n").unwrap();
    if !Command::new("musl-gcc")
        .arg(&source)
        .args(["-o", &program])
        .output()
        .is_ok_and(|output| output.status.success())
    {
        skipped("needs musl-gcc");
        return;
    }
    let outcome = under(&work, &[], &[&program]).finish();
    assert_eq!(
        (outcome.code, outcome.stdout.as_str(), outcome.stderr.lines().count()),
        (Some(3), "it ran\n", 1),
        "{outcome}"
    );
}
