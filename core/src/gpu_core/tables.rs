//! The tables of a GPU core dump.
//!
//! A core is an ELF file of machine 0xbe. Each table is a section: its type says what its entries are, its entry size how long they are, and
//! its link and info which entry of which table it belongs to. Devices have contexts, grids and multiprocessors; contexts have modules, and
//! modules an image; multiprocessors have blocks, blocks warps, and warps threads.
//!
//! Must not: keep entries. They go to `fold` as they are read; a filled device has a quarter of a million threads.

use super::fold::{Fold, Lane};
use super::image::Image;
use super::names::text;
use super::warps::{Entry, Memory};
use super::{GpuCore, GpuDevice, GpuFault, GpuKernel, GridStatus};
use crate::map::HashMap;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::{LittleEndian, ReadRef, StringTable};

type Header = FileHeader64<LittleEndian>;
pub(super) type Section = object::elf::SectionHeader64<LittleEndian>;
pub(super) const ENDIAN: LittleEndian = LittleEndian;

/// `EM_CUDA`.
const MACHINE: u16 = 0xbe;
/// The most sections; a filled device of 132 multiprocessors has 600,000.
const MOST_SECTIONS: u64 = 1 << 22;
/// The most bytes that are read of tables and images.
const MOST_BYTES: u64 = 1 << 30;
/// The most warps; eight filled devices have 70,000.
const MOST_WARPS: u64 = 1 << 17;
/// The most grids of a device. A stream can hold a thousand, and few of them are on the device.
const MOST_GRIDS: usize = 1 << 14;
const MOST_DEVICES: usize = 256;
const MOST_CALLERS: usize = 64;
/// The most images searched for an address outside its grid's image.
const MOST_IMAGES: usize = 64;

/// A kind of tables: its section type, the words for its entries, and the bytes of an entry in the first version of the format.
#[derive(Clone, Copy)]
pub(super) struct Table(pub u32, &'static str, u64);

pub(super) const SHARED: Table = Table(0x8000_0004, "shared memory", 0);
pub(super) const REGISTERS: Table = Table(0x8000_0005, "registers", 0);
pub(super) const UNIFORM: Table = Table(0x8000_0013, "uniform registers", 0);
const IMAGE: Table = Table(0x8000_0007, "device code", 0);
const CALLERS: Table = Table(0x8000_0008, "callers", 24);
const DEVICES: Table = Table(0x8000_0009, "devices", 72);
const CONTEXTS: Table = Table(0x8000_000a, "contexts", 40);
const MULTIPROCESSORS: Table = Table(0x8000_000b, "multiprocessors", 8);
const GRIDS: Table = Table(0x8000_000c, "grids", 104);
const BLOCKS: Table = Table(0x8000_000d, "blocks", 24);
const WARPS: Table = Table(0x8000_000e, "warps", 32);
const LANES: Table = Table(0x8000_000f, "threads", 48);
const MODULES: Table = Table(0x8000_0010, "modules", 8);
const METADATA: Table = Table(0x8000_0016, "the core itself", 32);

/// An entry of a table. A field that an older driver does not write is `None`, or 0.
#[derive(Clone, Copy)]
struct Row<'a>(&'a [u8]);

impl Row<'_> {
    fn newer_u32(self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.0.get(at..at + 4)?.try_into().ok()?))
    }
    fn newer_u64(self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(self.0.get(at..at + 8)?.try_into().ok()?))
    }
    fn u32(self, at: usize) -> u32 {
        self.newer_u32(at).unwrap_or(0)
    }
    fn u64(self, at: usize) -> u64 {
        self.newer_u64(at).unwrap_or(0)
    }
    fn three(self, at: usize) -> [u32; 3] {
        [self.u32(at), self.u32(at + 4), self.u32(at + 8)]
    }
}

/// The error: why a file is not read as a GPU core dump, in words that go on from its name.
type Read<T> = Result<T, String>;

fn refused<T>(why: impl Into<String>) -> Read<T> {
    Err(why.into())
}

/// Reads a GPU core dump: from memory, or through an `object::ReadCache`, which reads of a file only what is asked for.
///
/// # Errors
/// The reason why a file is no core, in words that follow its name. [`GpuCore::defects`] names the damage of a core.
pub fn read<'data, R: ReadRef<'data>>(data: R) -> Result<GpuCore, String> {
    let bytes = data.len().unwrap_or(0);
    let Ok(header) = Header::parse(data) else { return refused("is no core dump of a GPU: no ELF file of 64 bits") };
    let (machine, file_type) = (header.e_machine.get(ENDIAN), header.e_type.get(ENDIAN));
    if machine.0 != MACHINE || file_type != object::elf::ET_CORE {
        return refused(foreign(machine.0, file_type.0));
    }
    let cut_short = |needed: u64| {
        format!("is cut short, or still being written: it has {bytes} bytes, and would need {needed} at least")
    };
    let start = header.e_shoff.get(ENDIAN);
    let count = u64::from(header.shnum(ENDIAN, data).map_err(|_| cut_short(start.saturating_add(64)))?);
    if count > MOST_SECTIONS {
        return refused(format!("is damaged: it claims to have {count} sections"));
    }
    let end = start.saturating_add(count * 64);
    if start == 0 || end > bytes {
        return Err(cut_short(end.max(start).max(bytes.saturating_add(1))));
    }
    let sections = header.section_headers(ENDIAN, data).map_err(|_| cut_short(end))?;
    let mut reader = Reader {
        data,
        sections,
        index: HashMap::default(),
        strings: strings(header, sections, data),
        bytes_left: MOST_BYTES,
        warps_left: MOST_WARPS,
        missing: 0,
        left_out: 0,
        lost_warps: 0,
    };
    reader.fill_index();
    reader.core()
}

fn foreign(machine: u16, file_type: u16) -> String {
    match (machine, file_type) {
        (MACHINE, _) => {
            format!("is no core dump of a GPU, but device code, or another file for GPUs (ELF type {file_type})")
        }
        (_, 4) => format!("is a core dump, but of a program and not of a GPU (ELF machine {machine})"),
        _ => format!("is no core dump of a GPU: an ELF file of machine {machine}, type {file_type}"),
    }
}

/// The names of devices: `.strtab`, which is another table than that of the sections' names.
fn strings<'data, R: ReadRef<'data>>(header: &Header, sections: &'data [Section], data: R) -> StringTable<'data, R> {
    let names = header.section_strings_index(ENDIAN, data).map_or(0, |index| index.0);
    let tables =
        || sections.iter().enumerate().filter(|(_, section)| section.sh_type.get(ENDIAN) == object::elf::SHT_STRTAB);
    let own = tables().find(|(at, _)| *at != names).or_else(|| tables().next());
    let range = own.and_then(|(_, section)| section.file_range(ENDIAN));
    range.map_or_else(StringTable::default, |(start, size)| StringTable::new(data, start, start.saturating_add(size)))
}

pub(super) struct Reader<'data, R: ReadRef<'data>> {
    pub data: R,
    pub sections: &'data [Section],
    /// The sections by type, link and info: which entry of which table they belong to.
    index: HashMap<(u32, u32, u32), u32>,
    strings: StringTable<'data, R>,
    bytes_left: u64,
    warps_left: u64,
    missing: u64,
    left_out: u64,
    lost_warps: u64,
}

impl<'data, R: ReadRef<'data>> Reader<'data, R> {
    fn fill_index(&mut self) {
        for (at, section) in self.sections.iter().enumerate() {
            let key = (section.sh_type.get(ENDIAN).0, section.sh_link.get(ENDIAN), section.sh_info.get(ENDIAN));
            if key.0 >= SHARED.0 {
                self.index.entry(key).or_insert(at as u32);
            }
        }
    }

    /// A section's content; empty where it lies behind the end of the file, or too much has been read already.
    fn content(&mut self, at: u32) -> &'data [u8] {
        let Some(section) = self.sections.get(at as usize) else { return &[] };
        let size = section.sh_size.get(ENDIAN);
        if size > self.bytes_left {
            self.left_out += 1;
            return &[];
        }
        self.bytes_left -= size;
        match section.data(ENDIAN, self.data) {
            Ok(content) => content,
            Err(_) => {
                self.missing += 1;
                &[]
            }
        }
    }

    fn entries(&mut self, table: Table, at: u32) -> Read<impl Iterator<Item = Row<'data>>> {
        let size = self.sections.get(at as usize).map_or(0, |section| section.sh_entsize.get(ENDIAN));
        let content = self.content(at);
        let Table(_, of, least) = table;
        if size < least && !content.is_empty() {
            return refused(format!(
                "has entries of {size} bytes about {of}; the first version of the format has {least}"
            ));
        }
        Ok(content.chunks_exact(usize::try_from(size).unwrap_or(usize::MAX).max(1)).map(Row))
    }

    /// The table of this kind that belongs to an entry of another.
    pub fn belonging(&self, table: Table, link: u32, info: usize) -> Option<u32> {
        self.index.get(&(table.0, link, u32::try_from(info).ok()?)).copied()
    }

    /// The index of that table, and so many of its entries at most; none where there is no such table.
    fn entries_of(&mut self, table: Table, link: u32, info: usize, most: usize) -> Read<(u32, Vec<Row<'data>>)> {
        match self.belonging(table, link, info) {
            Some(at) => Ok((at, self.entries(table, at)?.take(most).collect())),
            None => Ok((0, Vec::new())),
        }
    }

    fn string(&self, at: u64) -> String {
        u32::try_from(at).ok().and_then(|at| self.strings.get(at).ok()).map(text).unwrap_or_default()
    }

    fn core(mut self) -> Read<GpuCore> {
        let mut core = GpuCore::default();
        let first = |table: Table| self.sections.iter().position(|section| section.sh_type.get(ENDIAN).0 == table.0);
        let Some(devices) = first(DEVICES) else { return refused("is damaged: it has no table of devices") };
        let devices = devices as u32;
        if let Some(metadata) = first(METADATA) {
            // A single entry, of which the header does not say how long it is.
            let entry = Row(self.content(metadata as u32));
            if entry.0.len() as u64 >= METADATA.2 {
                let version = |at| format!("{}.{}", entry.u32(at), entry.u32(at + 4));
                core.driver = Some(version(8));
                core.cuda = Some(version(16));
                core.written_unix_s = Some(entry.u32(28));
            }
        }
        let entries: Vec<_> = self.entries(DEVICES, devices)?.take(MOST_DEVICES).collect();
        for (index, entry) in entries.into_iter().enumerate() {
            core.devices.push(self.device(entry, devices, index)?);
        }
        let mut note = |count: u64, what: &str| {
            if count > 0 {
                core.defects.push(format!("{count} {what}"));
            }
        };
        note(self.missing, "of its tables lie behind its end: it is cut short, or damaged");
        note(self.left_out, "of its tables were not read: together they are larger than 1 GiB");
        note(self.lost_warps, "of its warps were not read: they are too many");
        Ok(core)
    }

    fn device(&mut self, entry: Row<'_>, devices: u32, index: usize) -> Read<GpuDevice> {
        let (multiprocessors, warps) = (entry.u32(36), entry.u32(40));
        let mut device = GpuDevice {
            id: entry.u32(24),
            name: self.string(entry.u64(0)),
            target: self.string(entry.u64(16)),
            pci_bus: entry.u32(28),
            multiprocessors,
            warps_most: u64::from(multiprocessors) * u64::from(warps),
            ..GpuDevice::default()
        };
        let mut fold = Fold::new(entry.u32(56));
        for entry in self.entries_of(GRIDS, devices, index, MOST_GRIDS)?.1 {
            let (kernel, entry_point, module) = kernel(entry);
            fold.add_grid(kernel, entry_point, module);
        }
        let (multiprocessors, entries) = self.entries_of(MULTIPROCESSORS, devices, index, usize::MAX)?;
        for (at, entry) in entries.into_iter().enumerate() {
            let address = (entry.u32(12) != 0).then(|| entry.newer_u64(16)).flatten();
            if entry.u32(8) != 0 {
                fold.add_fault(GpuFault::new(entry.u32(8), address));
            }
            self.blocks(multiprocessors, at, &mut fold)?;
        }
        device.waits_unread = self.has_registers() && !fold.knows_waits();
        (device.kernels, device.faults) = self.with_code(fold, devices, index)?;
        device.warps = device.kernels.iter().map(|kernel| kernel.warps).sum();
        Ok(device)
    }

    fn blocks(&mut self, multiprocessors: u32, index: usize, fold: &mut Fold) -> Read<()> {
        let (blocks, entries) = self.entries_of(BLOCKS, multiprocessors, index, usize::MAX)?;
        for (at, entry) in entries.into_iter().enumerate() {
            if !fold.begin_block(entry.u64(0), entry.three(8), Entry::of(blocks, at)) {
                continue;
            }
            let (warps, entries) = self.entries_of(WARPS, blocks, at, usize::MAX)?;
            for (at, entry) in entries.into_iter().enumerate() {
                self.warp(entry, warps, at, fold)?;
            }
        }
        Ok(())
    }

    fn warp(&mut self, entry: Row<'_>, warps: u32, index: usize, fold: &mut Fold) -> Read<()> {
        if self.warps_left == 0 {
            self.lost_warps += 1;
            fold.incomplete = true;
            return Ok(());
        }
        self.warps_left -= 1;
        let (valid, active) = (entry.u32(12), entry.u32(16));
        let error = (entry.u32(24) != 0).then(|| entry.u64(0));
        let mut standing = Vec::new();
        let (lanes, entries) = self.entries_of(LANES, warps, index, 64)?;
        for (at, entry) in entries.into_iter().enumerate() {
            let bit = 1_u32.checked_shl(entry.u32(16)).unwrap_or(0);
            if valid & bit == 0 {
                continue;
            }
            let callers = self.entries_of(CALLERS, lanes, at, MOST_CALLERS)?.1;
            let code = entry.u32(32);
            standing.push(Lane {
                entry: Entry::of(lanes, at),
                address: entry.u64(0),
                offset: entry.u64(8),
                thread: entry.three(20),
                active: active & bit != 0,
                state: entry.newer_u32(48),
                fault: (code != 0).then_some((code, error)),
                callers: callers.into_iter().map(|caller| caller.u64(8)).collect(),
            });
        }
        fold.add_warp(Entry::of(warps, index), standing);
        Ok(())
    }

    /// The kernels, with the names and lines of their places, which the images of the modules have.
    fn with_code(&mut self, fold: Fold, devices: u32, index: usize) -> Read<(Vec<GpuKernel>, Vec<GpuFault>)> {
        let mut loaded = Vec::new();
        if let Some(contexts) = self.belonging(CONTEXTS, devices, index) {
            let count = self.entries(CONTEXTS, contexts)?.count();
            for context in 0..count {
                let Some(modules) = self.belonging(MODULES, contexts, context) else { continue };
                for (at, entry) in self.entries(MODULES, modules)?.enumerate() {
                    loaded.extend(self.belonging(IMAGE, modules, at).map(|section| (entry.u64(0), section)));
                }
            }
        }
        // The modules of the grids first, then as many others as an unknown address may be in.
        let wanted = fold.modules();
        let (own, others): (Vec<_>, Vec<_>) = loaded.into_iter().partition(|(module, _)| wanted.contains(module));
        let mut read = |(module, section)| (module, Image::new(self.content(section)));
        let mut images: Vec<_> = own.into_iter().map(&mut read).collect();
        for image in others.into_iter().take(MOST_IMAGES) {
            if fold.is_known_to(&images) {
                break;
            }
            images.push(read(image));
        }
        let knows = fold.knows_waits() && self.has_registers();
        let memory: Option<&mut dyn Memory> = if knows { Some(self) } else { None };
        Ok(fold.finish(&images, memory))
    }

    fn has_registers(&self) -> bool {
        self.sections.iter().any(|section| section.sh_type.get(ENDIAN).0 == REGISTERS.0)
    }
}

/// A kernel, the address of its entry, and its module.
fn kernel(entry: Row<'_>) -> (GpuKernel, u64, u64) {
    let (grid, block) = (entry.three(72), entry.three(84));
    let kernel = GpuKernel {
        grid_id: entry.u64(0),
        context: entry.u64(8),
        status: match entry.u32(64) {
            1 => GridStatus::Pending,
            2 => GridStatus::Active,
            3 => GridStatus::Sleeping,
            4 => GridStatus::Terminated,
            _ => GridStatus::Unknown,
        },
        grid,
        block,
        cluster: entry.newer_u32(112).is_some().then(|| entry.three(104)).filter(|cluster| *cluster != [0; 3]),
        blocks: Some(grid.iter().fold(1, |product: u64, next| product.saturating_mul(u64::from(*next)))),
        host_thread: Some(entry.u32(100)).filter(|thread| *thread != 0),
        ..GpuKernel::default()
    };
    (kernel, entry.u64(24), entry.u64(32))
}
