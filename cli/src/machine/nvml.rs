//! The state of the cards while a program starts, which a thread of `lazyguard run` asks of NVML and writes into the folder of the run.
//!
//! Must not: be loaded into the guarded program, make the command wait for a library that does not answer, or fail.

use crate::machine::files;
use crate::machine::parallel::Beside;
use crate::machine::system::unix_now;
use lazyguard_core::Nanos;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::{Device, Nvml};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

pub(crate) const FILE: &str = "card.json";
const SCHEMA: u32 = 1;
/// The library's name on a machine without CUDA's development files.
const LIBRARY: &str = "libnvidia-ml.so.1";
const INTERVAL: Duration = Duration::from_millis(100);
/// The most samples kept. Beyond that, every second one is dropped and the interval doubles.
const MOST_LOOKS: usize = 2048;
const MOST_CARDS: u32 = 16;
const PATIENCE: Duration = Duration::from_secs(2);
/// The interval at which the file is rewritten, so that a kill leaves something.
const WRITTEN_AGAIN: Duration = Duration::from_secs(5);

/// The cards of a machine, and their samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cards {
    /// 1; raised when a key changes its meaning or goes away.
    pub schema: u32,
    /// Why data is missing.
    pub why: Option<String>,
    /// The driver's published version.
    pub driver: Option<String>,
    /// The cards.
    pub cards: Vec<Card>,
    /// Oldest first; each look adds one for each card.
    pub samples: Vec<Sample>,
}

/// A card.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Card {
    /// NVML's index; CUDA may number otherwise.
    pub index: u32,
    /// Its name.
    pub name: Option<String>,
    /// Its UUID.
    pub uuid: Option<String>,
    /// The multiprocessors' highest clock.
    pub most_sm_mhz: Option<u32>,
    /// The memory's highest clock.
    pub most_memory_mhz: Option<u32>,
    /// Whether persistence mode is on.
    pub persistent: Option<bool>,
}

/// A card at a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// When, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// Which.
    pub card: u32,
    /// 0 is fastest, 15 slowest.
    pub power_state: Option<u32>,
    /// The clock of the multiprocessors.
    pub sm_mhz: Option<u32>,
    /// The clock of the memory.
    pub memory_mhz: Option<u32>,
    /// The temperature, in degrees Celsius.
    pub temperature_c: Option<u32>,
    /// The power drawn, in milliwatts.
    pub power_mw: Option<u32>,
    /// The reasons for lower clocks.
    pub throttled: Vec<String>,
}

impl Cards {
    /// The cards' states during a run, from its folder or that of one of its processes. `None` where the run did not record them.
    pub fn of(folder: &Path) -> Option<Result<Self, String>> {
        let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
        let path = [Some(folder), above].into_iter().flatten().map(|at| at.join(FILE)).find(|path| path.is_file())?;
        let read = files::open_unlinked(&path).and_then(files::all_of).map_err(|error| error.to_string());
        let cards = read.and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string()));
        Some(cards.map_err(|error| format!("{}: {error}", path.display())))
    }

    /// The last sample of a card before a moment or, without one, the first after it.
    pub fn at(&self, card: u32, unix_ns: u64) -> Option<&Sample> {
        let mut of_it = self.samples.iter().filter(|sample| sample.card == card);
        of_it.clone().take_while(|sample| sample.unix_ns <= unix_ns).last().or_else(|| of_it.next())
    }

    /// When a card's clock was first seen to be within a twentieth of what it was at a moment; nothing before `from`.
    pub fn reached_clock_of(&self, card: u32, from: u64, unix_ns: u64) -> Option<u64> {
        let there = self.at(card, unix_ns)?.sm_mhz?;
        let near = |sample: &&Sample| sample.sm_mhz.is_some_and(|mhz| u64::from(mhz) * 20 >= u64::from(there) * 19);
        let mut since = self.samples.iter().filter(|s| s.card == card && s.unix_ns >= from);
        since.find(near).map(|sample| sample.unix_ns)
    }
}

/// Samples until the drop; the first sample is there when it returns, if the library answers in time.
pub(crate) fn sample(root: &Path) -> Option<Beside> {
    sample_by(OsStr::new(LIBRARY), root)
}

fn sample_by(library: &OsStr, root: &Path) -> Option<Beside> {
    let (first, looked) = channel();
    let path = root.join(FILE);
    let nothing_yet = Cards { why: Some(format!("{} did not answer", library.display())), ..Cards::new() };
    let _ = nothing_yet.write(&path);
    let library = library.to_owned();
    let started = Beside::start("card", PATIENCE, move |stopped| look(&library, &path, &first, stopped)).ok()?;
    let _ = looked.recv_timeout(PATIENCE);
    Some(started)
}

fn look(library: &OsStr, path: &Path, first: &Sender<()>, stopped: &Receiver<()>) {
    let mut cards = Cards::new();
    let nvml = match Nvml::builder().lib_path(library).init() {
        Ok(nvml) => nvml,
        Err(error) => {
            cards.why = Some(format!("{}: {error}", library.display()));
            let _ = cards.write(path);
            return;
        }
    };
    cards.driver = nvml.sys_driver_version().ok();
    let count = nvml.device_count().unwrap_or(0).min(MOST_CARDS);
    let devices: Vec<_> = (0..count).filter_map(|index| Some((index, nvml.device_by_index(index).ok()?))).collect();
    cards.cards = devices.iter().map(|(index, device)| card(*index, device)).collect();
    if devices.is_empty() {
        cards.why = Some("the management library knows no card".to_owned());
    }
    let (mut interval, mut written, mut ends) = (INTERVAL, None::<Instant>, false);
    loop {
        cards.samples.extend(devices.iter().map(|(index, device)| state(*index, device)));
        if ends || written.is_none_or(|at| at.elapsed() >= WRITTEN_AGAIN) {
            let _ = cards.write(path);
            written = Some(Instant::now());
            let _ = first.send(());
        }
        if ends {
            return;
        }
        ends = stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout);
        if cards.thin_out(devices.len()) {
            interval *= 2;
        }
    }
}

impl Cards {
    fn new() -> Self {
        Self { schema: SCHEMA, ..Self::default() }
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        files::replace(path, &serde_json::to_vec_pretty(self).map_err(io::Error::other)?, None)
    }

    fn thin_out(&mut self, cards: usize) -> bool {
        let much = self.samples.len() >= MOST_LOOKS * cards.max(1);
        let mut looks = (0_usize..).map(|number| number / cards.max(1));
        self.samples.retain(|_| !much || looks.next().is_some_and(|look| look.is_multiple_of(2)));
        much
    }
}

fn card(index: u32, device: &Device<'_>) -> Card {
    Card {
        index,
        name: device.name().ok(),
        uuid: device.uuid().ok(),
        most_sm_mhz: device.max_clock_info(Clock::SM).ok(),
        most_memory_mhz: device.max_clock_info(Clock::Memory).ok(),
        persistent: device.is_in_persistent_mode().ok(),
    }
}

fn state(card: u32, device: &Device<'_>) -> Sample {
    Sample {
        unix_ns: unix_now().as_nanos() as Nanos,
        card,
        power_state: device.performance_state().ok().map(|state| state as u32).filter(|number| *number <= 15),
        sm_mhz: device.clock_info(Clock::SM).ok(),
        memory_mhz: device.clock_info(Clock::Memory).ok(),
        temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
        power_mw: device.power_usage().ok(),
        throttled: device.current_throttle_reasons().map_or_else(|_| Vec::new(), |reasons| named(reasons.bits())),
    }
}

fn named(bits: u64) -> Vec<String> {
    const NAMES: &str =
        "idle, application clocks, power cap, hardware slowdown, sync boost, software thermal slowdown, \
         hardware thermal slowdown, power brake, display clocks";
    (0..).zip(NAMES.split(", ")).filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;
    use std::process::Command;

    /// A temporary folder of a test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("lazyguard-card-{test}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a folder");
            Self(path)
        }

        fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            // A folder that cannot be removed lies among temporary files.
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// The library of `testapps/nvml`, which plays a card that wakes up.
    fn fake(folder: &Path) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testapps/nvml/libnvidia-ml.c");
        let library = folder.join(LIBRARY);
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let built =
            Command::new(compiler).args(["-shared", "-fPIC", "-O1"]).arg(source).arg("-o").arg(&library).status();
        assert!(built.is_ok_and(|status| status.success()), "the library cannot be built");
        library
    }

    #[test]
    fn a_card_is_looked_at_from_before_the_start_until_the_end() {
        let folder = Folder::new("looks");
        let sampler = sample_by(fake(folder.path()).as_os_str(), folder.path());
        let before = Cards::of(folder.path()).expect("a file").expect("its content");
        assert_eq!((before.why, before.samples.len()), (None, 1), "it has looked once when the program begins");
        std::thread::sleep(INTERVAL * 3);
        drop(sampler);
        let cards = Cards::of(&folder.path().join("rank0-17")).expect("a file").expect("its content");
        let card = &cards.cards[0];
        assert_eq!(
            (card.name.as_deref(), card.most_sm_mhz, card.persistent),
            (Some("Simulated card"), Some(1980), Some(false))
        );
        assert_eq!(cards.driver.as_deref(), Some("580.00"));
        let (first, last) = (&cards.samples[0], &cards.samples[cards.samples.len() - 1]);
        assert!(cards.samples.len() >= 3 && first.unix_ns < last.unix_ns, "{:?}", cards.samples);
        assert_eq!((first.power_state, first.sm_mhz, first.memory_mhz), (Some(8), Some(345), Some(405)));
        assert_eq!(
            (first.temperature_c, first.power_mw, first.throttled.as_slice()),
            (Some(31), Some(70_000), &["idle".to_owned()][..])
        );
        assert_eq!((last.power_state, last.sm_mhz), (Some(0), Some(1980)));
        assert_eq!(last.throttled, ["power cap", "software thermal slowdown"]);
        assert_eq!(cards.at(0, first.unix_ns - 1), Some(first), "nothing before the first");
        assert_eq!(cards.at(0, u64::MAX), Some(last));
        assert_eq!(cards.at(1, u64::MAX), None);
        let reached = cards.reached_clock_of(0, first.unix_ns, last.unix_ns).expect("it was reached");
        assert!(reached > first.unix_ns, "not while the card slept");
    }

    #[test]
    fn where_the_library_is_not_there_the_file_says_so() {
        let folder = Folder::new("absent");
        let absent = folder.path().join("libnvidia-ml.so.1");
        drop(sample_by(absent.as_os_str(), folder.path()));
        let cards = Cards::of(folder.path()).expect("a file").expect("its content");
        let why = cards.why.expect("why there is nothing");
        assert!(why.contains("libnvidia-ml.so.1") && why.contains("cannot open"), "{why}");
        assert!(cards.samples.is_empty() && cards.cards.is_empty());
    }

    #[test]
    fn nothing_fails_where_nothing_can_be_written() {
        drop(sample_by(OsStr::new("/there/is/none.so"), Path::new("/there/is/no/folder")));
        assert!(Cards::of(Path::new("/there/is/no/folder")).is_none());
    }

    #[test]
    fn looks_that_are_too_many_are_thinned_out_card_by_card() {
        let mut cards = Cards::new();
        cards.samples = (0..2 * MOST_LOOKS as u32)
            .map(|n| Sample { card: n % 2, power_mw: Some(n / 2), ..Sample::default() })
            .collect();
        assert!(cards.thin_out(2) && !cards.thin_out(2));
        let kept: Vec<_> = cards.samples.iter().take(4).map(|s| (s.card, s.power_mw.unwrap_or(0))).collect();
        assert_eq!(kept, [(0, 0), (1, 0), (0, 2), (1, 2)]);
        assert_eq!(cards.samples.len(), MOST_LOOKS);
    }
}
