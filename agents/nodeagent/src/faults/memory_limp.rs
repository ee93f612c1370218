//! `memory.limp`: a neighbour that takes memory bandwidth: threads that stream over a buffer larger
//! than the last-level cache, so that each pass goes to memory, in the role's cgroup.
//!
//! It takes CPU time too, as `interference.cpu` does: what a machine's cap gives is all there is.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use nix::unistd::getppid;
use serde::{Deserialize, Serialize};

use super::dose::{rate_reader, DoseReader, Scale};
use super::parameter::{Default, Parameter};
use super::{neighbour, Fault, Planned, Refusal};
use crate::machine::memory::Memory;
use crate::machine::processes::own_program;
use crate::machine::Machine;

/// Size of the buffer in caches, so that passes over it find hardly anything in a cache.
const CACHES: u64 = 4;
const BUFFER_BYTES_MIN: u64 = 64 << 20;
/// Memory that the machine must have left beside the buffer.
const SPARE_BYTES: u64 = 16 << 20;
/// Words between two counts.
const BLOCK: usize = 1 << 17;
const WORD_BYTES: u64 = 8;
const TELL_EVERY: Duration = Duration::from_millis(100);

pub struct MemoryLimp;

#[derive(Serialize, Deserialize)]
pub struct Parameters {
    threads: u32,
    buffer_mb: Option<f64>,
}

#[derive(Serialize, Deserialize)]
pub struct Record {
    id: String,
    threads: u32,
    bytes: u64,
    /// File with the threads' progress.
    #[serde(rename = "told")]
    progress: PathBuf,
}

impl Fault for MemoryLimp {
    const KIND: &'static str = "memory.limp";
    const SUMMARY: &'static str = "a neighbour that takes memory bandwidth";
    const COMMANDS: &'static str =
        "nodeagent neighbour, {threads} threads streaming over {buffer_mb} MB in the role's cgroup";
    const UNDO: &'static str = "kill -KILL the neighbours that carry the fault's id";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::integer("threads", "streaming threads")
            .at_least(1.0)
            .at_most(64.0)
            .or(Default::Number(1.0)),
        Parameter::number(
            "buffer_mb",
            "over how much memory; else four times the last-level cache, at least 67 MB",
        )
        .in_unit("MB")
        .at_least(1.0)
        .at_most(1e5)
        .optional(),
    ];
    const DOSE: Scale = Scale {
        unit: "MB/s",
        how: "what the threads read from the buffer and wrote back, by their own count",
    };
    type Parameters = Parameters;
    type Record = Record;

    fn capability(&self, machine: &Machine) -> Result<()> {
        Memory::of(&machine.cgroups)?.room_or_spare().map(drop)
    }

    fn plan(&self, machine: &Machine, id: &str, parameters: &Parameters) -> Planned<Record> {
        let bytes = parameters.buffer_mb.map(|mb| (mb * 1e6) as u64);
        let bytes = bytes.unwrap_or((CACHES * last_cache_bytes()).max(BUFFER_BYTES_MIN));
        let room = Memory::of(&machine.cgroups)?.room_or_spare()?;
        if bytes + SPARE_BYTES > room {
            return Err(Refusal::Conflict(format!(
                "a buffer of {bytes} bytes and {SPARE_BYTES} beside it do not fit into the {room} \
                 that the machine has left; give a smaller buffer_mb"
            )));
        }
        Ok(Record {
            id: id.into(),
            threads: parameters.threads,
            bytes,
            progress: machine.config.state_dir.join(format!("stream-{id}")),
        })
    }

    fn inject(&self, machine: &Machine, record: &Record) -> Result<()> {
        let program = vec![
            own_program()?.to_string_lossy().into_owned(),
            "stream".into(),
            record.bytes.to_string(),
            record.threads.to_string(),
            record.progress.to_string_lossy().into_owned(),
        ];
        neighbour::start_all(machine, &record.id, &[program])
    }

    fn undo(&self, _machine: &Machine, record: &Record) -> Result<()> {
        neighbour::stop(&record.id)?;
        match fs::remove_file(&record.progress) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", record.progress.display()))
            }
            _ => Ok(()),
        }
    }

    fn dose_reader(&self, _machine: &Arc<Machine>, record: &Record) -> Box<dyn DoseReader> {
        let file = record.progress.clone();
        rate_reader(None, move || {
            let text = fs::read_to_string(&file).context("the threads have told nothing")?;
            let bytes: f64 = text.trim().parse().context("what the threads told")?;
            Ok(bytes / 1e6)
        })
    }
}

/// The largest cache of the first CPU; none where the kernel does not tell.
fn last_cache_bytes() -> u64 {
    let size = |index: u32| {
        let file = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let text = fs::read_to_string(file).ok()?;
        let kilobytes: u64 = text.trim().strip_suffix('K')?.parse().ok()?;
        Some(kilobytes * 1024)
    };
    (0..8).filter_map(size).max().unwrap_or(0)
}

/// The body of `nodeagent stream BYTES THREADS FILE`: ends when its parent does.
pub fn stream(words: &[&str]) -> Result<i32> {
    let [bytes, threads, path] = words else {
        bail!("stream: expected bytes, threads and a file (got {})", words.join(" "))
    };
    let (bytes, threads): (u64, usize) = (bytes.parse()?, threads.parse()?);
    let file = File::create(path).with_context(|| format!("cannot make {path}"))?;
    let parent = getppid();
    let mut buffer = vec![1_u64; (bytes / WORD_BYTES).max(threads as u64) as usize];
    let part = buffer.len().div_ceil(threads);
    let count = AtomicU64::new(0);
    thread::scope(|scope| -> Result<i32> {
        for part in buffer.chunks_mut(part) {
            scope.spawn(|| pass_over(part, &count));
        }
        while getppid() == parent {
            let text = format!("{:020}\n", count.load(Ordering::Relaxed));
            file.write_all_at(text.as_bytes(), 0)
                .with_context(|| format!("cannot write {}", Path::new(path).display()))?;
            thread::sleep(TELL_EVERY);
        }
        // The threads have no end of their own.
        std::process::exit(0)
    })
}

fn pass_over(part: &mut [u64], moved: &AtomicU64) {
    loop {
        for block in part.chunks_mut(BLOCK) {
            for word in block.iter_mut() {
                *word = word.wrapping_mul(3);
            }
            let touched = 2 * WORD_BYTES * block.len() as u64;
            moved.fetch_add(touched, Ordering::Relaxed);
            std::hint::black_box(&block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_cache_is_the_last() {
        let text = fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index0/size");
        assert_eq!(text.is_ok(), last_cache_bytes() > 0);
    }

    #[test]
    fn a_call_that_is_not_the_agents_own_is_refused() {
        assert!(stream(&["1"]).is_err());
        assert!(stream(&["1", "x", "/nowhere"]).is_err());
    }
}
