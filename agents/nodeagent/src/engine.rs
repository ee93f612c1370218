//! The life of every fault: plan, undo record on disk, inject, lease, undo.
//!
//! One lock serialises injections and undos, so that two of them never meet on one resource. A
//! fault whose undo fails stays on record, keeps its resource and is tried again.

mod holds;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use wire::agent::{Capability, Fault, FaultRequest, FaultState, RevertReason, LEASE_S_MAX};

use crate::clock::Moment;
use crate::faults::dose::{DoseReader, Scale};
use crate::faults::{Kind, Refusal};
use crate::journal::{Entry, Journal};
use crate::machine::Machine;
use crate::meter::Meter;

/// Faults that are kept in the list; the oldest reverted ones are forgotten first.
const REMEMBERED_MAX: usize = 10_000;
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Owns the faults of one machine.
pub struct Engine {
    machine: Arc<Machine>,
    kinds: Vec<Box<dyn Kind>>,
    capabilities: Vec<(&'static str, Capability)>,
    journal: Journal,
    state: Mutex<State>,
    held: AtomicUsize,
}

#[derive(Default)]
struct State {
    faults: Vec<Episode>,
    last_id: u64,
    /// True once the agent ends: requests are answered still, but nothing is begun.
    is_ended: bool,
}

struct Episode {
    fault: Fault,
    entry: Entry,
    /// Uptime at which to undo it, or to try again.
    due: Duration,
    /// Reason for the undo, kept for retries.
    reason: RevertReason,
    /// Until the fault is undone.
    meter: Option<Meter>,
}

impl Engine {
    /// An engine without faults; call `replay` before anything else.
    pub fn new(machine: Arc<Machine>, kinds: Vec<Box<dyn Kind>>, journal: Journal) -> Engine {
        let state = Mutex::new(State::default());
        Engine {
            machine,
            kinds,
            capabilities: Vec::new(),
            journal,
            state,
            held: AtomicUsize::new(0),
        }
    }

    /// Undoes faults that an earlier agent left in the journal, or continues those that may outlast
    /// an agent and have a valid lease. Returns records that were set aside.
    pub fn replay(&self, now: Moment) -> Result<Vec<String>> {
        let mut state = self.lock();
        let (entries, broken) = self.journal.entries(|entry| self.check(entry))?;
        for entry in entries {
            let rest = entry.time_left(now.wall_ms);
            let goes_on = outlasts_the_agent(&entry) && !rest.is_zero();
            let mut episode = Episode::new(entry, now, RevertReason::Lease);
            if goes_on {
                episode.fault.injected_at_ms = episode.entry.written_at_ms;
                episode.extend(rest, now);
            } else {
                self.revert_one(&mut episode, RevertReason::Restart, now);
            }
            state.faults.push(episode);
        }
        self.count(&mut state);
        Ok(broken)
    }

    /// Tries every kind once and keeps the answers.
    pub fn try_kinds(&mut self) {
        let try_one = |kind: &dyn Kind| match kind.capability(&self.machine) {
            Ok(()) => Capability { available: true, reason: None },
            Err(reason) => Capability { available: false, reason: Some(reason) },
        };
        self.capabilities = self.kinds.iter().map(|kind| (kind.name(), try_one(&**kind))).collect();
    }

    /// The faults that this machine can inject.
    pub fn capabilities(&self) -> impl Iterator<Item = (&'static str, &Capability)> {
        self.capabilities.iter().map(|(name, capability)| (*name, capability))
    }

    /// Number of faults in force, without held roles.
    pub fn active(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Injects a fault after its undo record is on disk. `now` returns the present time.
    pub fn inject(
        &self,
        request: &FaultRequest,
        now: impl Fn() -> Moment,
    ) -> Result<Fault, Refusal> {
        lease(request.lease_s)?;
        let kind = self.kind(&request.kind)?;
        let mut state = self.lock();
        state.refuse_if_ended()?;
        let resource = kind.resource(&request.parameters)?;
        state.refuse_if_held(&resource)?;
        let id = state.next_id(now().wall_ms);
        let record = kind.plan(&self.machine, &id, &request.parameters)?;
        let entry = Entry {
            id,
            kind: request.kind.clone(),
            resource,
            parameters: kind.complete(&request.parameters)?,
            lease_s: request.lease_s,
            written_at_ms: now().wall_ms,
            record,
        };
        self.arm(&mut state, entry, now, |record| {
            kind.inject(&self.machine, record)?;
            kind.dose_reader(&self.machine, record).map(Some)
        })
    }

    /// Writes the undo record, acts, and keeps the fault; undoes a partial injection. Replaces a
    /// fault with the entry's id.
    fn arm(
        &self,
        state: &mut State,
        entry: Entry,
        now: impl Fn() -> Moment,
        act: impl FnOnce(&Value) -> Result<Option<(Scale, Box<dyn DoseReader>)>>,
    ) -> Result<Fault, Refusal> {
        let lease = lease(entry.lease_s)?;
        self.journal.write(&entry)?;
        let outcome = act(&entry.record);
        let at = now();
        let mut episode = Episode::new(entry, at, RevertReason::Lease);
        episode.extend(lease, at);
        let result = match outcome {
            Ok(reader) => {
                episode.meter = reader.map(Meter::start);
                Ok(episode.report())
            }
            Err(error) => Err(self.give_up(&mut episode, &error, at)),
        };
        state.keep(episode);
        self.count(state);
        result
    }

    /// All faults of this agent's life, oldest first.
    pub fn list(&self) -> Vec<Fault> {
        self.lock().faults.iter().map(Episode::report).collect()
    }

    /// Undoes one fault; one that is undone already is returned unchanged.
    pub fn revert(&self, id: &str, now: impl Fn() -> Moment) -> Result<Fault, Refusal> {
        let mut state = self.lock();
        let episode = state.find(id)?;
        if episode.fault.state != FaultState::Reverted {
            self.revert_one(episode, RevertReason::Requested, now());
        }
        let fault = episode.fault.clone();
        self.count(&mut state);
        match &fault.error {
            Some(error) => Err(Refusal::Failed(format!("{id} could not be undone: {error}"))),
            None => Ok(fault),
        }
    }

    /// Undoes every fault, the newest first. Returns those that were in force. After SIGTERM later
    /// requests are refused, because no agent would undo them.
    pub fn revert_all(&self, reason: RevertReason, now: impl Fn() -> Moment) -> Vec<Fault> {
        let mut state = self.lock();
        state.is_ended |= reason == RevertReason::Sigterm;
        let mut faults = Vec::new();
        for episode in state.active() {
            self.revert_one(episode, reason, now());
            faults.push(episode.fault.clone());
        }
        self.count(&mut state);
        faults
    }

    /// Gives an active fault a new lease from now.
    pub fn renew(&self, id: &str, lease_s: f64, now: Moment) -> Result<Fault, Refusal> {
        let lease = lease(lease_s)?;
        let mut state = self.lock();
        state.refuse_if_ended()?;
        let episode = state.find(id)?;
        if episode.fault.state != FaultState::Active {
            return Err(Refusal::Conflict(format!("{id} is not active any more; inject it again")));
        }
        if outlasts_the_agent(&episode.entry) {
            let entry = Entry { lease_s, written_at_ms: now.wall_ms, ..episode.entry.clone() };
            self.journal.write(&entry)?;
            episode.entry = entry;
        }
        episode.fault.lease_s = lease_s;
        episode.extend(lease, now);
        Ok(episode.report())
    }

    /// Undoes what is due, the newest first: ended leases, and undos that failed before. Returns
    /// the faults concerned.
    pub fn expire(&self, now: Moment) -> Vec<Fault> {
        let mut state = self.lock();
        let mut faults = Vec::new();
        for episode in state.active().filter(|episode| episode.due <= now.uptime) {
            let reason = episode.reason;
            self.revert_one(episode, reason, now);
            faults.push(episode.fault.clone());
        }
        self.count(&mut state);
        faults
    }

    fn kind(&self, name: &str) -> Result<&dyn Kind, Refusal> {
        let Some(kind) = self.kinds.iter().find(|kind| kind.name() == name) else {
            let names: Vec<_> = self.kinds.iter().map(|kind| kind.name()).collect();
            return Err(Refusal::Invalid(format!(
                "unknown kind `{name}`; this agent knows {}",
                names.join(", ")
            )));
        };
        let missing =
            self.capabilities().find(|(other, capability)| *other == name && !capability.available);
        match missing {
            Some((_, capability)) => Err(Refusal::Unavailable(format!(
                "this machine cannot inject {name}: {}",
                capability.reason.as_deref().unwrap_or("no reason recorded")
            ))),
            None => Ok(&**kind),
        }
    }

    fn undoer(&self, name: &str) -> Result<&dyn Kind> {
        let kind = self.kinds.iter().find(|kind| kind.name() == name);
        let kind = kind.with_context(|| format!("no kind `{name}` to undo it with"))?;
        Ok(&**kind)
    }

    fn check(&self, entry: &Entry) -> Result<()> {
        match holds::of(&entry.kind) {
            Some(hold) => hold.check_record(&entry.record),
            None => self.undoer(&entry.kind)?.check_record(&entry.record),
        }
    }

    fn undo(&self, entry: &Entry) -> Result<()> {
        match holds::of(&entry.kind) {
            Some(hold) => hold.undo(&self.machine, &entry.record),
            None => self.undoer(&entry.kind)?.undo(&self.machine, &entry.record),
        }
    }

    /// Undoes a fault without waiting for a look: its dose is that of the last one.
    fn revert_one(&self, episode: &mut Episode, reason: RevertReason, now: Moment) {
        if let Some(meter) = episode.meter.take() {
            episode.fault.dose = Some(meter.stop());
        }
        let result =
            self.undo(&episode.entry).and_then(|()| self.journal.remove(&episode.entry.id));
        episode.reason = reason;
        match result {
            Ok(()) => {
                episode.fault.state = FaultState::Reverted;
                episode.fault.reverted_at_ms = Some(now.wall_ms);
                episode.fault.revert_reason = Some(reason);
                episode.fault.error = None;
            }
            Err(error) => {
                episode.fault.state = FaultState::RevertFailed;
                episode.fault.error = Some(format!("{error:#}"));
                episode.due = now.uptime + RETRY_AFTER;
            }
        }
    }

    fn give_up(&self, episode: &mut Episode, error: &anyhow::Error, now: Moment) -> Refusal {
        self.revert_one(episode, RevertReason::Requested, now);
        let end = match &episode.fault.error {
            None => "what was done of it is undone".to_owned(),
            Some(undo) => format!("and its undo failed too, it will be tried again: {undo}"),
        };
        Refusal::Failed(format!("{} was not injected: {error:#}; {end}", episode.fault.kind))
    }

    fn count(&self, state: &mut State) {
        let faults = state.active().filter(|episode| holds::of(&episode.entry.kind).is_none());
        self.held.store(faults.count(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Makes an id of eleven hexadecimal digits of the time: unique here, sortable, short enough
    /// for a device's name.
    fn next_id(&mut self, wall_ms: u64) -> String {
        self.last_id = wall_ms.max(self.last_id + 1);
        format!("f{:011x}", self.last_id)
    }

    fn refuse_if_ended(&self) -> Result<(), Refusal> {
        if self.is_ended {
            let reason = "the agent was told to end and has undone all faults; ask the next one";
            return Err(Refusal::Conflict(reason.into()));
        }
        Ok(())
    }

    /// Episodes in force, the newest first.
    fn active(&mut self) -> impl Iterator<Item = &mut Episode> {
        self.faults.iter_mut().rev().filter(|episode| episode.holds())
    }

    fn refuse_if_held(&mut self, resource: &str) -> Result<(), Refusal> {
        match self.active().find(|episode| episode.entry.resource == resource) {
            None => Ok(()),
            Some(holder) => Err(Refusal::Conflict(format!(
                "{} {} holds `{resource}`; revert it first",
                holder.fault.kind, holder.fault.id
            ))),
        }
    }

    fn find(&mut self, id: &str) -> Result<&mut Episode, Refusal> {
        let episode = self.faults.iter_mut().find(|episode| episode.fault.id == id);
        episode.ok_or_else(|| Refusal::Unknown(format!("this agent knows no fault `{id}`")))
    }

    /// Replaces the fault with the same id; a fault that was never in force is not kept.
    fn keep(&mut self, episode: Episode) {
        let id = &episode.fault.id;
        match self.faults.iter_mut().find(|other| other.fault.id == *id) {
            Some(old) => *old = episode,
            None if episode.holds() => self.faults.push(episode),
            None => {}
        }
        if self.faults.len() > REMEMBERED_MAX {
            if let Some(oldest) = self.faults.iter().position(|episode| !episode.holds()) {
                self.faults.remove(oldest);
            }
        }
    }
}

impl Episode {
    fn new(entry: Entry, now: Moment, reason: RevertReason) -> Episode {
        let fault = Fault {
            id: entry.id.clone(),
            kind: entry.kind.clone(),
            parameters: entry.parameters.clone(),
            lease_s: entry.lease_s,
            injected_at_ms: now.wall_ms,
            expires_at_ms: now.wall_ms + (entry.lease_s * 1e3) as u64,
            state: FaultState::Active,
            reverted_at_ms: None,
            revert_reason: None,
            error: None,
            dose: None,
        };
        Episode { fault, entry, due: now.uptime, reason, meter: None }
    }

    fn extend(&mut self, lease: Duration, now: Moment) {
        self.due = now.uptime + lease;
        self.fault.expires_at_ms = now.wall_ms + lease.as_millis() as u64;
    }

    /// The fault as the API returns it.
    fn report(&self) -> Fault {
        let dose = self.meter.as_ref().map(Meter::dose);
        Fault { dose: dose.or_else(|| self.fault.dose.clone()), ..self.fault.clone() }
    }

    fn holds(&self) -> bool {
        self.fault.state != FaultState::Reverted
    }
}

fn outlasts_the_agent(entry: &Entry) -> bool {
    holds::of(&entry.kind).is_some_and(|hold| hold.outlasts_the_agent())
}

fn lease(lease_s: f64) -> Result<Duration, Refusal> {
    if lease_s > 0.0 && lease_s <= LEASE_S_MAX {
        return Ok(Duration::from_secs_f64(lease_s));
    }
    Err(Refusal::Invalid(format!(
        "lease_s: expected over 0 and at most {LEASE_S_MAX} (got {lease_s})"
    )))
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
