//! The state of the devices, from the core dumps of GPUs in the processes' folders.
//!
//! Must not: say it in other words than `lazyguard report`.

use super::markup::{short, Markup, MOST_LETTERS, PROBLEM};
use crate::folder::gpu_core;
use crate::judge::Process;
use lazyguard_core::gpu_core::{GpuCore, GpuKernel};

const MOST_CORES: usize = 8;
const MOST_KERNELS: usize = 64;
const MOST_PLACES: usize = 64;
const WIDTH: u64 = 300;

pub(super) struct Device<'a> {
    who: String,
    core: &'a Result<GpuCore, String>,
    said: Vec<String>,
}

pub(super) fn of<'a>(processes: impl Iterator<Item = &'a Process>) -> Vec<Device<'a>> {
    let devices = processes.filter_map(|process| {
        let core = process.gpu.as_ref()?;
        let hang = process.stood.as_ref().map(|stood| stood.report());
        let said = core.as_ref().map(|core| gpu_core::said(core, hang)).unwrap_or_default();
        Some(Device { who: process.title(), core, said })
    });
    devices.take(MOST_CORES).collect()
}

pub(super) fn draw(page: &mut Markup, devices: &[Device<'_>]) {
    let about =
        "Where the device stood when its core dump was taken. A bar shows how many of a kernel's warps are at a place.";
    page.say("p", about);
    for Device { who, core, said } in devices {
        page.line("h3", who);
        let core = match core {
            Ok(core) => core,
            Err(why) => {
                page.line(PROBLEM, &gpu_core::unreadable(why));
                continue;
            }
        };
        for device in &core.devices {
            device.head().iter().for_each(|line| page.line("p", line.trim()));
            device.kernels.iter().take(MOST_KERNELS).for_each(|kernel| draw_kernel(page, kernel));
            page.left_out(device.kernels.len(), MOST_KERNELS, "more kernel");
        }
        said.iter().take(MOST_PLACES).for_each(|line| page.line("p", line.trim()));
        core.defect_lines().take(MOST_PLACES).for_each(|defect| page.line(PROBLEM, &defect));
    }
}

fn draw_kernel(page: &mut Markup, kernel: &GpuKernel) {
    page.open(r#"div class="kernel""#, &[]);
    kernel.lines().iter().take(1).for_each(|line| page.line(r#"p class="name""#, line));
    page.open("ul", &[]);
    for place in kernel.places.iter().take(MOST_PLACES) {
        page.open("li", &[])
            .open(r#"svg class="share" aria-hidden="true""#, &[("viewBox", &format!("0 0 {WIDTH} 10"))]);
        let wide = u128::from(place.warps) * u128::from(WIDTH) / u128::from(kernel.warps.max(place.warps).max(1));
        page.rect("whole", [&0, &0, &WIDTH, &10]);
        page.rect(if place.fault.is_some() { "hazard" } else { "submission" }, [&0, &0, &wide.max(2), &10]);
        page.close().text(short(&place.line(), MOST_LETTERS)).close();
    }
    page.close();
    page.left_out(kernel.places.len(), MOST_PLACES, "more place");
    kernel.wait_lines().iter().for_each(|line| page.line("p", line));
    page.close();
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazyguard_core::gpu_core::{Doing, GpuDevice, GpuFrame, GpuPlace};

    #[test]
    fn each_place_has_a_line_and_a_bar_and_what_cannot_be_read_is_said() {
        let frame =
            GpuFrame { function: "spin<&>".to_owned(), file: Some("a.cu".to_owned()), line: Some(11), inlined: false };
        let place = |warps, doing| GpuPlace {
            warps,
            doing,
            threads: warps,
            threads_of_a_warp: [1, 1],
            frames: vec![frame.clone()],
            ..GpuPlace::default()
        };
        let places = vec![place(2, Doing::WaitsAtBarrier), place(6, Doing::Loops)];
        let kernel = GpuKernel {
            name: "outer".to_owned(),
            warps: 8,
            blocks: Some(2),
            blocks_resident: 2,
            places,
            ..GpuKernel::default()
        };
        let device = GpuDevice { name: "H200".to_owned(), kernels: vec![kernel], ..GpuDevice::default() };
        let core = GpuCore { devices: vec![device], defects: vec!["cut <short>".to_owned()], ..GpuCore::default() };
        let lines = core.lines();
        let who = "train (process 7)".to_owned();
        let (core, unread) = (Ok(core), Err("gpu.core: nothing".to_owned()));
        let read = Device { who: who.clone(), core: &core, said: vec!["it is the culprit".to_owned()] };
        let unread = Device { who, core: &unread, said: Vec::new() };
        let mut page = Markup::default();
        draw(&mut page, &[read, unread]);
        let page = page.finish();
        let lacking =
            lines.iter().map(|line| line.trim().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"));
        assert_eq!(lacking.filter(|line| !page.contains(line.as_str())).collect::<Vec<_>>(), Vec::<String>::new());
        assert!(page.contains("width=\"75\"") && page.contains("width=\"225\""), "2 and 6 of 8 warps: {page}");
        assert!(page.contains("cannot be read: gpu.core: nothing") && page.contains("it is the culprit"));
    }
}
