//! A look: a process, and the processes that it may wait for.
//!
//! Must not: decide what it means.

use super::kernel::{Descriptor, Stat};
use super::process::{Process, Reader};
use super::source::Source;
use super::wait::{Peer, Wait};
use super::Depth;

const MOST_DESCENDANTS: usize = 256;
const MOST_ASKED: usize = 8192;

/// One look at a process and the processes that it may wait for.
#[derive(Clone, Debug, Default)]
pub struct Look {
    pub(super) process: u32,
    /// The process first, then those that it has started, in the order of their generation.
    pub(super) seen: Vec<Process>,
    /// Since the machine's start, in hundredths of a second; 0 where unknown.
    pub(super) uptime: u64,
    pub(super) lacks: Vec<String>,
}

impl Look {
    /// `threads`: those whose wait counts (that submitted, or made collectives); empty for the main thread.
    pub fn take(source: &Source, process: u32, threads: &[u32], depth: Depth) -> Self {
        let mut look = Self { process, uptime: uptime(source), ..Self::default() };
        let reader = Reader { source, depth };
        look.seen.extend(reader.process(process, threads, &mut look.lacks));
        if look.seen.is_empty() {
            return look;
        }
        let all = source.numbers("proc");
        let parents: Vec<(u32, u32)> = all.iter().filter_map(|id| Some((*id, Stat::of(source, *id)?.parent))).collect();
        let mut at = 0;
        while let Some(parent) = look.seen.get(at).map(|seen| seen.process) {
            let children = parents.iter().filter(|(_, of)| *of == parent).map(|(id, _)| *id);
            for child in children.take(MOST_DESCENDANTS.saturating_sub(look.seen.len())).collect::<Vec<_>>() {
                if !look.has(child) {
                    look.seen.extend(reader.process(child, &[], &mut Vec::new()));
                }
            }
            at += 1;
        }
        // A process that has not been started by this one may hold the other end of its pipe or connection, or the lock of its file.
        let others = look.wanted().into_iter().filter_map(|wanted| match wanted {
            Wanted::Process(process) => Some(process),
            Wanted::End(link) => all
                .iter()
                .copied()
                .take(MOST_ASKED)
                .filter(|other| !look.has(*other))
                .find(|other| reader.descriptors(*other, &mut Vec::new()).iter().any(|one| one.link == link)),
        });
        for other in others.collect::<Vec<_>>() {
            if !look.has(other) {
                look.seen.extend(reader.process(other, &[], &mut Vec::new()));
            }
        }
        look
    }

    fn has(&self, process: u32) -> bool {
        self.process(process).is_some()
    }

    pub(super) fn process(&self, process: u32) -> Option<&Process> {
        self.seen.iter().find(|seen| seen.process == process)
    }

    /// The processes that hold the other end of a pipe or FIFO.
    pub(super) fn holders<'a>(&'a self, own: u32, link: &'a str, writes: bool) -> impl Iterator<Item = &'a Process> {
        let is_other_end = move |one: &Descriptor| {
            one.link == link && (!link.starts_with("pipe:") || if writes { one.reads } else { one.writes })
        };
        self.seen.iter().filter(move |seen| seen.process != own && seen.descriptors.iter().any(is_other_end))
    }

    /// The process that has the other end of a connection.
    pub(super) fn other_end(&self, peer: &Peer) -> Option<&Process> {
        let link = peer.link.as_ref()?;
        self.seen.iter().find(|seen| seen.descriptors.iter().any(|one| one.link == *link))
    }

    fn wanted(&self) -> Vec<Wanted> {
        let Some(first) = self.seen.first() else { return Vec::new() };
        let mut wanted = Vec::new();
        for thread in &first.threads {
            let waits = match &thread.wait {
                Wait::Any(waits) => waits.as_slice(),
                wait => std::slice::from_ref(wait),
            };
            for wait in waits {
                match wait {
                    Wait::FileLock(_, Some(owner)) => wanted.push(Wanted::Process(*owner)),
                    Wait::Peer(peer) if first.store != Some(peer.port) && self.other_end(peer).is_none() => {
                        wanted.extend(peer.link.clone().map(Wanted::End));
                    }
                    Wait::Pipe { link, writes }
                        if !link.is_empty() && self.holders(self.process, link, *writes).next().is_none() =>
                    {
                        wanted.push(Wanted::End(link.clone()));
                    }
                    _ => {}
                }
            }
        }
        wanted
    }
}

enum Wanted {
    Process(u32),
    /// The one that has this pipe or socket.
    End(String),
}

fn uptime(source: &Source) -> u64 {
    let text = source.text("proc/uptime").unwrap_or_default();
    let whole = text.split_ascii_whitespace().next().and_then(|time| time.replace('.', "").parse().ok());
    whole.unwrap_or(0)
}
