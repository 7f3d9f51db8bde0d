//! The devices that the driver opens, and what hides them.

use super::finding::Findings;
use super::machine::Machine;
use lazyguard_core::api::counted;
use rustix::fs::{access, Access};

const BESIDE: [&str; 2] = ["/dev/nvidiactl", "/dev/nvidia-uvm"];

pub(super) fn look(machine: &Machine, driver_is_real: bool, found: &mut Findings) {
    hidden(machine, found);
    if !driver_is_real || machine.at("/dev/dxg").exists() {
        return;
    }
    let entries = std::fs::read_dir(machine.at("/dev")).into_iter().flatten().flatten();
    let is_device = |name: &str| name.strip_prefix("nvidia").is_some_and(|rest| rest.parse::<u32>().is_ok());
    let devices = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_device));
    let mut devices: Vec<_> = devices.map(|entry| entry.path()).collect();
    devices.sort();
    if devices.is_empty() {
        return found.obstacle(
            "there is no /dev/nvidia0, nor any other device: the driver finds none",
            "load the kernel module (nvidia-smi does that as root); in a container, start it with --gpus all",
        );
    }
    let all = devices.iter().cloned().chain(BESIDE.iter().map(|path| machine.at(path)));
    let mut shut = Vec::new();
    for path in all {
        if !path.exists() {
            found.note(
                format!("{} is not there", path.display()),
                "run nvidia-smi, or nvidia-modprobe -u -c 0, once as root; in a container, start it with --gpus all",
            );
        } else if access(&path, Access::READ_OK | Access::WRITE_OK).is_err() {
            shut.push(path.display().to_string());
        }
    }
    match shut.is_empty() {
        true => found.ok(format!("{}, which can be opened", counted(devices.len(), "device"))),
        false => found.obstacle(
            format!("this user may not open {}", shut.join(", ")),
            "ask for access: membership in the group that owns them, or the job system's allocation of a GPU",
        ),
    }
}

fn hidden(machine: &Machine, found: &mut Findings) {
    let Some(list) = machine.variable("CUDA_VISIBLE_DEVICES").map(std::ffi::OsStr::to_string_lossy) else { return };
    // The driver ignores the list from the first invalid entry on.
    let hides_all = matches!(list.split(',').next().unwrap_or("").trim(), "" | "-1" | "NoDevFiles");
    match hides_all {
        true => found.obstacle(
            format!("CUDA_VISIBLE_DEVICES={list:?} hides every device from the program"),
            "unset it, or name a device: CUDA_VISIBLE_DEVICES=0",
        ),
        false => found.ok(format!("the program sees the devices CUDA_VISIBLE_DEVICES={list}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::doctor::finding::Level;

    fn levels(name: &str, files: &[&str], environment: &[(&str, &str)], needed: bool) -> Vec<Level> {
        let root = std::env::temp_dir().join(format!("lazyguard-doctor-{name}-{}", std::process::id()));
        std::fs::create_dir_all(root.join("dev")).unwrap();
        files.iter().for_each(|file| std::fs::write(root.join(file), "").unwrap());
        let mut found = Findings::default();
        found.needed = needed;
        look(&Machine::played(&root, environment), true, &mut found);
        std::fs::remove_dir_all(&root).unwrap();
        found.all().iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn no_device_is_a_problem_for_a_program_that_needs_one() {
        assert_eq!(levels("none", &[], &[], false), [Level::Note]);
        assert_eq!(levels("none-needed", &[], &[], true), [Level::Problem]);
        let all = ["dev/nvidia0", "dev/nvidia1", "dev/nvidiactl", "dev/nvidia-uvm"];
        assert_eq!(levels("all", &all, &[], true), [Level::Ok]);
        // The doctor reports a missing file, and examines the rest.
        assert_eq!(levels("no-uvm", &all[..3], &[], true), [Level::Note, Level::Ok]);
        assert_eq!(levels("dxg", &["dev/dxg"], &[], true), []);
    }

    #[test]
    fn a_variable_that_hides_all_devices_is_told_from_one_that_names_some() {
        let all = ["dev/nvidia0", "dev/nvidiactl", "dev/nvidia-uvm"];
        for (value, expect) in
            [("", Level::Problem), ("-1", Level::Problem), ("-1,0", Level::Problem), ("0,1", Level::Ok)]
        {
            assert_eq!(levels("hidden", &all, &[("CUDA_VISIBLE_DEVICES", value)], true)[0], expect, "{value:?}");
        }
    }
}
