//! Whether the driver can be asked for a GPU core dump here, where the settings want one.
//!
//! Must not: say anything where none is wanted.

use super::finding::Findings;
use super::machine::Machine;
use crate::words::on_hang::KILL;
use lazyguard_core::gpu_dump::{is_virtual, obstacle, MPS_FOLDER};
use lazyguard_core::settings::{GpuDump, OnHang, Settings, GPU_DUMP, ON_HANG};

/// Examines what speaks against it. `devices` are the names of the driver's devices, as far as they are known.
pub(super) fn look(machine: &Machine, settings: &Settings, devices: &[String], found: &mut Findings) {
    let kills = machine.told(ON_HANG).is_some_and(|value| value == KILL);
    let fails = settings.on_hang == OnHang::Fail;
    if !settings.gpu_dump.is_wanted() && !fails {
        return;
    }
    let ends = fails || kills || matches!(settings.on_hang, OnHang::Abort | OnHang::Exit(_));
    let (variable, folder, control) = MPS_FOLDER;
    let mps = machine.at(machine.told(variable).unwrap_or_else(|| folder.to_owned())).join(control).exists();
    let status = machine.text("/proc/self/status").unwrap_or_default();
    let why = obstacle(machine.texts().map(|(name, _)| name), &status, mps);
    let is_virtual = || devices.iter().find(|name| is_virtual(name)).map(|name| format!("{name} is a virtual GPU"));
    let what = match settings.gpu_dump {
        _ if fails => format!("{ON_HANG}=fail"),
        GpuDump::Full => format!("{GPU_DUMP}=full"),
        GpuDump::Off | GpuDump::Threads => format!("{GPU_DUMP}=on"),
    };
    match why.or_else(is_virtual) {
        Some(why) => found.note(
            format!("{what} has no effect here: {why}"),
            "run the program without that tool, debugger or service",
        ),
        None if !ends => found.note(
            format!("{what} has no effect alone: {ON_HANG} leaves the program as it is"),
            "say what is to end it: abort, exit:N or fail; or kill, with lazyguard run",
        ),
        None => found.ok(format!("{what}: nothing speaks against GPU core dumps here")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::doctor::finding::Level;

    #[test]
    fn what_speaks_against_a_dump_is_said_where_one_is_wanted() {
        let root = std::env::temp_dir().join(format!("lazyguard-doctor-dump-{}", std::process::id()));
        std::fs::create_dir_all(root.join("tmp/nvidia-mps")).unwrap();
        let seen = |environment: &[(&str, &str)], devices: &[&str]| {
            let machine = Machine::played(&root, environment);
            let mut found = Findings::default();
            let settings = Settings::read(environment.iter().copied()).0;
            let devices: Vec<_> = devices.iter().map(|name| (*name).to_owned()).collect();
            look(&machine, &settings, &devices, &mut found);
            found.all().iter().map(|finding| (finding.level, finding.what.clone())).collect::<Vec<_>>()
        };
        let (fails, dumps) = ((ON_HANG, "fail"), (GPU_DUMP, "on"));
        assert_eq!(seen(&[("CUDA_INJECTION64_PATH", "/t.so")], &["NVIDIA A40-8Q"]), []);
        assert_eq!(seen(&[fails], &["NVIDIA H100 80GB HBM3"])[0].0, Level::Ok);
        assert_eq!(seen(&[dumps, (ON_HANG, "kill")], &[])[0].0, Level::Ok);
        assert!(seen(&[dumps], &[])[0].1.contains("has no effect alone"));
        let tool = seen(&[fails, ("CUDA_INJECTION64_PATH", "/t.so")], &[]);
        assert!(tool[0].0 == Level::Note && tool[0].1.contains("CUDA_INJECTION64_PATH"), "{tool:?}");
        assert!(seen(&[fails], &["Tesla T4", "NVIDIA A40-8Q"])[0].1.contains("virtual"));
        std::fs::write(root.join("tmp/nvidia-mps/control"), "").unwrap();
        assert!(seen(&[fails], &[])[0].1.contains("MPS"));
        std::fs::remove_dir_all(&root).unwrap();
    }
}
