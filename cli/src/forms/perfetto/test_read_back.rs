//! For tests: reads a written timeline as a viewer does. Events are sorted by time, and keep their order in the file within a moment.
//! An end ends the newest slice of its track.

use super::protobuf::tests::{fields, Field};
use std::collections::BTreeMap;

/// A slice, or an instant, which has no duration.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slice {
    pub track: String,
    /// Its index among the tracks of this name.
    pub row: u64,
    pub name: String,
    pub category: String,
    pub begin: u64,
    pub end: Option<u64>,
    pub facts: BTreeMap<String, String>,
    pub flows: Vec<u64>,
    pub instant: bool,
}

/// The content of a timeline.
#[derive(Default)]
pub(super) struct ReadBack {
    pub slices: Vec<Slice>,
    pub tracks: BTreeMap<u64, String>,
}

fn number(message: &[(u32, Field)], field: u32) -> Option<u64> {
    message.iter().find_map(|(f, value)| match value {
        Field::Number(n) | Field::Fixed(n) if *f == field => Some(*n),
        _ => None,
    })
}

fn parts(message: &[(u32, Field)], field: u32) -> impl Iterator<Item = &[u8]> {
    message.iter().filter_map(move |(f, value)| match value {
        Field::Bytes(bytes) if *f == field => Some(bytes.as_slice()),
        _ => None,
    })
}

fn text(message: &[(u32, Field)], field: u32) -> Option<String> {
    parts(message, field).next().map(|bytes| String::from_utf8(bytes.to_vec()).expect("a text"))
}

impl ReadBack {
    pub fn of(bytes: &[u8]) -> Self {
        let mut read = Self::default();
        // By kind of text, then by number.
        let mut texts: BTreeMap<(u32, u64), String> = BTreeMap::new();
        let mut events = Vec::new();
        for (packet_number, (field, packet)) in fields(bytes).into_iter().enumerate() {
            let (1, Field::Bytes(packet)) = (field, packet) else { panic!("a trace holds packets only") };
            let packet = fields(&packet);
            assert_eq!(number(&packet, 10), Some(1), "each packet is of the one sequence");
            assert_eq!(number(&packet, 13) == Some(1), packet_number == 0, "only the first packet begins anew");
            for interned in parts(&packet, 12) {
                for (kind, entry) in fields(interned) {
                    let Field::Bytes(entry) = entry else { panic!("{entry:?}") };
                    let entry = fields(&entry);
                    let place = (kind, number(&entry, 1).unwrap());
                    assert!(texts.insert(place, text(&entry, 2).unwrap()).is_none(), "{place:?} is defined twice");
                }
            }
            for track in parts(&packet, 60) {
                let track = fields(track);
                let within = |field, name| parts(&track, field).next().and_then(|part| text(&fields(part), name));
                let name = text(&track, 2).or_else(|| within(3, 6)).or_else(|| within(4, 5)).unwrap();
                assert!(read.tracks.insert(number(&track, 1).unwrap(), name).is_none(), "a track is there twice");
            }
            for event in parts(&packet, 11) {
                let event = fields(event);
                let kind = number(&event, 9).unwrap();
                let track = number(&event, 11).unwrap();
                let interned = |kind, field| number(&event, field).map(|n| texts[&(kind, n)].clone());
                let facts = parts(&event, 4).map(|fact| {
                    let fact = fields(fact);
                    let value = number(&fact, 17).map(|n| texts[&(29, n)].clone()).or_else(|| text(&fact, 6));
                    let value = value.or_else(|| {
                        let numbers = [2, 3, 4, 7].into_iter();
                        numbers.filter_map(|field| number(&fact, field)).next().map(|n| (n as i64).to_string())
                    });
                    (texts[&(3, number(&fact, 1).unwrap())].clone(), value.unwrap())
                });
                let flows = event.iter().filter(|(field, _)| *field == 47).map(|(_, value)| match value {
                    Field::Fixed(flow) => *flow,
                    other => panic!("{other:?}"),
                });
                let slice = Slice {
                    track: read.tracks[&track].clone(),
                    row: track,
                    name: interned(2, 10).or_else(|| text(&event, 23)).unwrap_or_default(),
                    category: interned(1, 3).unwrap_or_default(),
                    begin: number(&packet, 8).unwrap(),
                    end: None,
                    facts: facts.collect(),
                    flows: flows.collect(),
                    instant: kind == 3,
                };
                events.push((kind, slice));
            }
        }
        events.sort_by_key(|(_, slice)| slice.begin);
        let mut open: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (kind, slice) in events {
            match kind {
                2 => {
                    let newest = open.get_mut(&slice.row).and_then(Vec::pop).expect("an end has a beginning");
                    read.slices[newest].end = Some(slice.begin);
                }
                _ => {
                    if kind == 1 {
                        open.entry(slice.row).or_default().push(read.slices.len());
                    }
                    read.slices.push(slice);
                }
            }
        }
        read
    }

    /// The slices of tracks whose name begins so.
    pub fn of_track<'a>(&'a self, track: &'a str) -> impl Iterator<Item = &'a Slice> {
        self.slices.iter().filter(move |slice| slice.track.starts_with(track) && !slice.instant)
    }

    /// Arrows, each by the names of what it goes from and to.
    pub fn arrows(&self) -> Vec<(String, String)> {
        let mut by_flow: BTreeMap<u64, Vec<&Slice>> = BTreeMap::new();
        for slice in &self.slices {
            slice.flows.iter().for_each(|flow| by_flow.entry(*flow).or_default().push(slice));
        }
        let mut arrows: Vec<_> = by_flow
            .values()
            .flat_map(|slices| slices.windows(2).map(|pair| (pair[0].name.clone(), pair[1].name.clone())))
            .collect();
        arrows.sort();
        arrows
    }
}
