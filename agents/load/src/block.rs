//! One block: its loops, each on its own thread, and their recorder.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{channel, sync_channel, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use nix::unistd::{getpid, gettid, Pid};

use crate::engine::{Engine, LoopEnd};
use crate::plan::Plan;
use crate::record::Start;
use crate::recorder::{Recorder, Recording, Unwritten};
use crate::tally::Tally;
use crate::waiting::Stop;

/// A loop's thread, and the word to go that it waits for.
struct Thread {
    go: SyncSender<Start>,
    handle: JoinHandle<io::Result<LoopEnd>>,
}

/// A block that is ready, or under way.
pub struct Block {
    threads: Vec<Thread>,
    stops: Vec<Stop>,
    recorder_go: SyncSender<Start>,
    recording: Recording,
    /// The processor's, that its threads got.
    pub priority: String,
}

/// The result of a block.
pub struct Outcome {
    /// Results of the loops.
    pub loops: Vec<LoopEnd>,
    /// Error of a loop that failed.
    pub error: Option<String>,
    /// Records without a place.
    pub unwritten: Unwritten,
}

impl Block {
    /// Starts its threads, which wait for the word to go. `on_end` is called as each of them ends.
    ///
    /// # Errors
    /// When the records' file cannot be opened, or the kernel gives no more of something.
    pub fn prepare(
        plan: &Arc<Plan>,
        records: Option<&Path>,
        tally: Option<Arc<Mutex<Tally>>>,
        on_end: impl Fn() + Clone + Send + 'static,
    ) -> Result<Self> {
        let (sender, batches) = channel();
        let recorder = Recorder::open(Arc::clone(plan), records, tally)
            .with_context(|| format!("{}", records.unwrap_or(Path::new("")).display()))?;
        let (recorder_go, recorder_signal) = sync_channel(1);
        let recording = thread::Builder::new().name("records".into()).spawn(move || {
            // Without the word to go there is nothing to record.
            recorder_signal
                .recv()
                .map_or_else(|_| Unwritten::default(), |start| recorder.run(start, &batches))
        })?;
        let (mut threads, mut stops, mut ids) = (vec![], vec![], vec![]);
        for number in 0..plan.workers {
            let engine = Engine::new(Arc::clone(plan), number, plan.workers, sender.clone())?;
            stops.push(engine.stopper());
            let (go, start_signal) = sync_channel::<Start>(1);
            let (tell_id, id) = sync_channel(1);
            let on_end = on_end.clone();
            let handle =
                thread::Builder::new().name(format!("loop {number}")).spawn(move || {
                    let _ = tell_id.send(gettid());
                    let result = match start_signal.recv() {
                        Ok(start) => engine.run(start.origin_ns()),
                        Err(_) => Ok(LoopEnd::default()),
                    };
                    on_end();
                    result
                })?;
            ids.push(id.recv()?);
            threads.push(Thread { go, handle });
        }
        Ok(Self { threads, stops, recorder_go, recording, priority: raise_priority(&ids) })
    }

    /// Gives the word.
    pub fn go(&self, start: Start) {
        // A thread that is gone is found when it is joined.
        let _ = self.recorder_go.send(start);
        for thread in &self.threads {
            let _ = thread.go.send(start);
        }
    }

    /// Gives up what is under way.
    pub fn stop(&self) {
        for stop in &self.stops {
            stop.stop();
        }
    }

    /// Waits for its end; one that was not given the word ends at once.
    pub fn join(self) -> Outcome {
        let (mut loops, mut error) = (vec![], None);
        for Thread { go, handle } in self.threads {
            drop(go);
            match handle.join() {
                Ok(Ok(result)) => loops.push(result),
                Ok(Err(failure)) => error = Some(failure.to_string()),
                Err(_) => error = Some("a loop panicked: see the log".to_owned()),
            }
        }
        drop(self.recorder_go);
        let unwritten = self.recording.join().unwrap_or_else(|_| Unwritten {
            count: 0,
            error: Some("the recorder panicked: see the log".to_owned()),
        });
        Outcome { loops, error, unwritten }
    }
}

/// Asks for the processor before everyone else: a late generator measures itself. Returns what was
/// got.
fn raise_priority(threads: &[Pid]) -> String {
    let real_time = |id: &Pid| succeeds("chrt", &["--rr", "--pid", "1", &id.to_string()]);
    if threads.iter().all(real_time) {
        return "SCHED_RR 1".to_owned();
    }
    if succeeds("renice", &["-n", "-10", "-p", &getpid().to_string()]) {
        return "nice -10".to_owned();
    }
    "nice 0".to_owned()
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
