//! A worker by the contract of `experiments/load/workers/README.md`: plan in, records out, messages
//! over the runner's socket.

use std::path::Path;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};

use crate::block::{Block, Outcome};
use crate::control::{listen, send, socket, Message, Use};
use crate::locust::hostname;
use crate::plan::{part, Plan};
use crate::record::Start;
use crate::signals;
use crate::target::on_load_machine;

enum Event {
    Go(Start),
    Stop,
    Ended,
}

/// Carries out one block.
///
/// # Errors
/// When it cannot begin; the runner hears of all that comes later.
pub fn carry_out(plan: &Path, records: &Path, control: u32) -> Result<()> {
    let socket = socket(control)?;
    let (sender, events) = channel();
    let signal_sender = sender.clone();
    signals::on_end(move || {
        let _ = signal_sender.send(Event::Stop);
    })?;
    let json = std::fs::read(plan).with_context(|| plan.display().to_string())?;
    let plan = Plan::parse(&json, on_load_machine())?;
    let plan = Arc::new(plan);
    let loop_sender = sender.clone();
    let block = Block::prepare(&plan, Some(records), None, move || {
        let _ = loop_sender.send(Event::Ended);
    })?;
    let reader = socket.try_clone()?;
    thread::Builder::new().name("control".into()).spawn(move || {
        listen(reader, |start| {
            let _ = sender.send(Event::Go(start));
        });
        let _ = sender.send(Event::Stop);
    })?;
    send(&socket, &Message::Ready);
    follow(&block, plan.workers, &events);
    let priority = block.priority.clone();
    send(&socket, &done(block.join(), &plan, &priority));
    Ok(())
}

/// Follows the control socket until all loops have ended, or it closes before the start.
fn follow(block: &Block, loops: usize, events: &Receiver<Event>) {
    let (mut is_started, mut count) = (false, loops);
    while count > 0 {
        match events.recv() {
            Ok(Event::Go(start)) => {
                is_started = true;
                block.go(start);
            }
            Ok(Event::Ended) => count -= 1,
            Ok(Event::Stop) if is_started => block.stop(),
            Ok(Event::Stop) | Err(_) => return,
        }
    }
}

fn done(outcome: Outcome, plan: &Plan, priority: &str) -> Message {
    let host = hostname();
    let uses = outcome.loops.iter().enumerate().map(|(worker, result)| Use {
        worker,
        host: host.clone(),
        priority: priority.to_owned(),
        planned: part(plan.len(), worker, plan.workers) as u64,
        recorded: result.recorded,
        cpu_share: result.cpu_share,
        cpu_share_max: result.cpu_share_max,
    });
    let (launched, recorded) =
        outcome.loops.iter().fold((0, 0), |(a, b), end| (a + end.launched, b + end.recorded));
    Message::Done {
        launched,
        recorded,
        unfinished: launched - recorded,
        unwritten: outcome.unwritten.count,
        error: outcome.error.or(outcome.unwritten.error),
        workers: uses.collect(),
    }
}
