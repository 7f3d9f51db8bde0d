//! Jobs: the members of each communicator, and the program of each rank.

use crate::program::Program;
use std::fmt;

/// A job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// The ranks of each communicator.
    pub comms: Vec<Vec<usize>>,
    /// What each rank does, on one thread.
    pub ranks: Vec<Program>,
}

impl Job {
    /// Reads a text: a line for each communicator, and behind a line `rank` the lines of its program.
    ///
    /// # Errors
    ///
    /// The line that is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut comms = Vec::new();
        let mut ranks: Vec<String> = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            match (words.next(), ranks.last_mut()) {
                (Some("comm"), None) => {
                    let members: Result<Vec<usize>, _> = words.map(str::parse).collect();
                    comms.push(members.map_err(|_| format!("no ranks: {line}"))?);
                }
                (Some("rank"), _) => ranks.push(String::new()),
                (_, Some(of_rank)) => *of_rank += &format!("{line}\n"),
                _ => return Err(format!("neither a communicator nor a rank: {line}")),
            }
        }
        let job = Self { comms, ranks: ranks.iter().map(|text| Program::parse(text)).collect::<Result<_, _>>()? };
        if let Some(strange) = job.comms.iter().flatten().find(|rank| **rank >= job.ranks.len()) {
            return Err(format!("a communicator has rank {strange}, and the job has {}", job.ranks.len()));
        }
        Ok(job)
    }

    /// The other ranks of a communicator.
    pub fn peers(&self, comm: usize, rank: usize) -> impl Iterator<Item = usize> + '_ {
        self.comms.get(comm).into_iter().flatten().copied().filter(move |other| *other != rank)
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for members in &self.comms {
            let members: Vec<_> = members.iter().map(ToString::to_string).collect();
            writeln!(f, "comm {}", members.join(" "))?;
        }
        for (rank, program) in self.ranks.iter().enumerate() {
            write!(f, "rank {rank}\n{program}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_read_as_it_is_written() {
        let text = "comm 0 1\nrank 0\nstream nonblocking\n0 all_reduce comm=0 stream=0 count=8\nrank 1\nstream blocking\n0 sleep ms=3\n";
        let job = Job::parse(&format!("# Says something.\n{text}")).unwrap();
        assert_eq!(job.to_string(), text);
        assert_eq!(job.peers(0, 1).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn what_is_no_job_is_refused() {
        for text in ["stream nonblocking", "comm zero", "comm 0 1\nrank 0\n", "rank 0\n0 jump\n"] {
            assert!(Job::parse(text).is_err(), "{text}");
        }
    }
}
