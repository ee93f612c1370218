//! A worker by the contract of `experiments/load/workers/README.md`: plan in, records out, messages
//! over the runner's socket.

use std::path::Path;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};

use crate::block::{Block, Outcome};
use crate::control::{hear, say, socket, Say, Use};
use crate::plan::{part, Plan};
use crate::record::Start;
use crate::signals;
use crate::target::on_load_machine;

enum Told {
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
    let (tell, told) = channel();
    let stop = tell.clone();
    signals::on_end(move || {
        let _ = stop.send(Told::Stop);
    })?;
    let json = std::fs::read(plan).with_context(|| plan.display().to_string())?;
    let plan = Plan::parse(&json, on_load_machine())?;
    let plan = Arc::new(plan);
    let ended = tell.clone();
    let block = Block::prepare(&plan, Some(records), None, move || {
        let _ = ended.send(Told::Ended);
    })?;
    let theirs = socket.try_clone()?;
    thread::Builder::new().name("control".into()).spawn(move || {
        hear(theirs, |start| {
            let _ = tell.send(Told::Go(start));
        });
        let _ = tell.send(Told::Stop);
    })?;
    say(&socket, &Say::Ready);
    follow(&block, plan.workers, &told);
    let priority = block.priority.clone();
    say(&socket, &done(block.join(), &plan, &priority));
    Ok(())
}

/// Follows the control socket until each loop has ended, or until it closes before the word to go.
fn follow(block: &Block, loops: usize, told: &Receiver<Told>) {
    let (mut gone, mut left) = (false, loops);
    while left > 0 {
        match told.recv() {
            Ok(Told::Go(start)) => {
                gone = true;
                block.go(start);
            }
            Ok(Told::Ended) => left -= 1,
            Ok(Told::Stop) if gone => block.stop(),
            Ok(Told::Stop) | Err(_) => return,
        }
    }
}

fn done(outcome: Outcome, plan: &Plan, priority: &str) -> Say {
    let host = nix::unistd::gethostname()
        .map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned());
    let used = outcome.ended.iter().enumerate().map(|(worker, ended)| Use {
        worker,
        host: host.clone(),
        priority: priority.to_owned(),
        planned: part(plan.len(), worker, plan.workers) as u64,
        recorded: ended.recorded,
        cpu_share: ended.cpu_share,
        cpu_share_max: ended.cpu_share_max,
    });
    let (launched, recorded) =
        outcome.ended.iter().fold((0, 0), |(a, b), one| (a + one.launched, b + one.recorded));
    Say::Done {
        launched,
        recorded,
        unfinished: launched - recorded,
        unwritten: outcome.unwritten.count,
        error: outcome.error.or(outcome.unwritten.error),
        workers: used.collect(),
    }
}
