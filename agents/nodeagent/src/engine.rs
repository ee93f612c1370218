//! The life of every fault: plan, undo record on disk, inject, lease, undo.
//!
//! One lock serialises injections and undos, so that two of them never meet on one resource. A
//! fault whose undo fails stays on record, keeps its resource and is tried again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use wire::agent::{Capability, Fault, FaultRequest, FaultState, RevertReason, LEASE_S_MAX};

use crate::clock::Moment;
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
    faults: Vec<Held>,
    last_id: u64,
    /// The agent ends: clients that are connected are answered still, and nothing begins any more.
    ended: bool,
}

struct Held {
    fault: Fault,
    entry: Entry,
    /// Uptime at which to undo it, or to try again.
    due: Duration,
    /// Kept for the retries.
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

    /// Undoes what an earlier agent left in the journal. Returns what was set aside.
    pub fn replay(&self, now: Moment) -> Result<Vec<String>> {
        let mut state = self.lock();
        let check = |entry: &Entry| self.undoer(&entry.kind)?.check_record(&entry.record);
        let (entries, broken) = self.journal.entries(check)?;
        for entry in entries {
            let mut held = Held::new(entry, now, RevertReason::Restart);
            self.revert_one(&mut held, RevertReason::Restart, now);
            state.faults.push(held);
        }
        self.count(&state);
        Ok(broken)
    }

    /// Tries every kind once and keeps the answers.
    pub fn probe(&mut self) {
        let try_one = |kind: &dyn Kind| match kind.capability(&self.machine) {
            Ok(()) => Capability {
                available: true,
                reason: None,
            },
            Err(reason) => Capability {
                available: false,
                reason: Some(reason),
            },
        };
        self.capabilities = self
            .kinds
            .iter()
            .map(|kind| (kind.name(), try_one(&**kind)))
            .collect();
    }

    /// What this machine can inject.
    pub fn capabilities(&self) -> impl Iterator<Item = (&'static str, &Capability)> {
        self.capabilities
            .iter()
            .map(|(name, capability)| (*name, capability))
    }

    /// Faults in force.
    pub fn active(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Injects a fault; its undo record is on disk before. `now` gives the time when it is asked.
    pub fn inject(
        &self,
        request: &FaultRequest,
        now: impl Fn() -> Moment,
    ) -> Result<Fault, Refusal> {
        let lease = lease(request.lease_s)?;
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
        self.journal.write(&entry)?;
        let injected = kind
            .inject(&self.machine, &entry.record)
            .and_then(|()| kind.probe(&self.machine, &entry.record));
        let at = now();
        let mut held = Held::new(entry, at, RevertReason::Lease);
        held.due = at.uptime + lease;
        let result = match injected {
            Ok(probe) => {
                held.meter = Some(Meter::start(probe));
                Ok(held.told())
            }
            Err(error) => Err(self.give_up(&mut held, &error, at)),
        };
        if result.is_ok() || held.fault.state == FaultState::RevertFailed {
            state.faults.push(held);
        }
        state.forget_oldest();
        self.count(&state);
        result
    }

    /// All faults of this agent's life, oldest first.
    pub fn list(&self) -> Vec<Fault> {
        self.lock().faults.iter().map(Held::told).collect()
    }

    /// Undoes one fault; one that is undone already is returned as it is.
    pub fn revert(&self, id: &str, now: impl Fn() -> Moment) -> Result<Fault, Refusal> {
        let mut state = self.lock();
        let held = state.find(id)?;
        if held.fault.state != FaultState::Reverted {
            self.revert_one(held, RevertReason::Requested, now());
        }
        let fault = held.fault.clone();
        self.count(&state);
        match &fault.error {
            Some(error) => Err(Refusal::Failed(format!(
                "{id} could not be undone: {error}"
            ))),
            None => Ok(fault),
        }
    }

    /// Undoes every fault, the newest first. Returns those that were in force. On SIGTERM it is the
    /// end: what is asked for afterwards is refused, for nobody would undo it.
    pub fn revert_all(&self, reason: RevertReason, now: impl Fn() -> Moment) -> Vec<Fault> {
        let mut state = self.lock();
        state.ended |= reason == RevertReason::Sigterm;
        let mut done = Vec::new();
        for held in state.faults.iter_mut().rev().filter(|held| held.holds()) {
            self.revert_one(held, reason, now());
            done.push(held.fault.clone());
        }
        self.count(&state);
        done
    }

    /// Gives an active fault a new lease from now.
    pub fn renew(&self, id: &str, lease_s: f64, now: Moment) -> Result<Fault, Refusal> {
        let lease = lease(lease_s)?;
        let mut state = self.lock();
        state.refuse_if_ended()?;
        let held = state.find(id)?;
        if held.fault.state != FaultState::Active {
            return Err(Refusal::Conflict(format!(
                "{id} is not active any more; inject it again"
            )));
        }
        held.due = now.uptime + lease;
        held.fault.lease_s = lease_s;
        held.fault.expires_at_ms = now.wall_ms + lease.as_millis() as u64;
        Ok(held.told())
    }

    /// Undoes what is due: ended leases, and undos that failed before. Returns what it touched.
    pub fn expire(&self, now: Moment) -> Vec<Fault> {
        let mut state = self.lock();
        let mut touched = Vec::new();
        for held in state
            .faults
            .iter_mut()
            .filter(|held| held.holds() && held.due <= now.uptime)
        {
            let reason = held.reason;
            self.revert_one(held, reason, now);
            touched.push(held.fault.clone());
        }
        self.count(&state);
        touched
    }

    /// Does something to a resource that no fault may hold meanwhile.
    pub fn without_fault_on<T>(
        &self,
        resource: &str,
        act: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let state = self.lock();
        state.refuse_if_ended()?;
        state.refuse_if_held(resource)?;
        act()
    }

    fn kind(&self, name: &str) -> Result<&dyn Kind, Refusal> {
        let Some(kind) = self.kinds.iter().find(|kind| kind.name() == name) else {
            let known: Vec<_> = self.kinds.iter().map(|kind| kind.name()).collect();
            return Err(Refusal::Invalid(format!(
                "unknown kind `{name}`; this agent knows {}",
                known.join(", ")
            )));
        };
        let missing = self
            .capabilities()
            .find(|(of, what)| *of == name && !what.available);
        match missing {
            Some((_, what)) => Err(Refusal::Unavailable(format!(
                "this machine cannot inject {name}: {}",
                what.reason.as_deref().unwrap_or("no reason recorded")
            ))),
            None => Ok(&**kind),
        }
    }

    fn undoer(&self, name: &str) -> Result<&dyn Kind> {
        let kind = self.kinds.iter().find(|kind| kind.name() == name);
        let kind = kind.with_context(|| format!("no kind `{name}` to undo it with"))?;
        Ok(&**kind)
    }

    /// The undo does not wait for a look: the dose is what the last one before it found.
    fn revert_one(&self, held: &mut Held, reason: RevertReason, now: Moment) {
        if let Some(meter) = held.meter.take() {
            held.fault.dose = Some(meter.stop());
        }
        let undone = self
            .undoer(&held.entry.kind)
            .and_then(|kind| kind.undo(&self.machine, &held.entry.record))
            .and_then(|()| self.journal.remove(&held.entry.id));
        held.reason = reason;
        match undone {
            Ok(()) => {
                held.fault.state = FaultState::Reverted;
                held.fault.reverted_at_ms = Some(now.wall_ms);
                held.fault.revert_reason = Some(reason);
                held.fault.error = None;
            }
            Err(error) => {
                held.fault.state = FaultState::RevertFailed;
                held.fault.error = Some(format!("{error:#}"));
                held.due = now.uptime + RETRY_AFTER;
            }
        }
    }

    fn give_up(&self, held: &mut Held, error: &anyhow::Error, now: Moment) -> Refusal {
        self.revert_one(held, RevertReason::Requested, now);
        let end = match &held.fault.error {
            None => "what was done of it is undone".to_owned(),
            Some(undo) => format!("and its undo failed too, it will be tried again: {undo}"),
        };
        Refusal::Failed(format!(
            "{} was not injected: {error:#}; {end}",
            held.fault.kind
        ))
    }

    fn count(&self, state: &State) {
        self.held.store(
            state.faults.iter().filter(|held| held.holds()).count(),
            Ordering::Relaxed,
        );
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Eleven hexadecimal digits of the time: unique here, sortable, short enough for a device's
    /// name.
    fn next_id(&mut self, wall_ms: u64) -> String {
        self.last_id = wall_ms.max(self.last_id + 1);
        format!("f{:011x}", self.last_id)
    }

    fn refuse_if_ended(&self) -> Result<(), Refusal> {
        if self.ended {
            let why = "the agent was told to end and has undone all faults; ask the next one";
            return Err(Refusal::Conflict(why.into()));
        }
        Ok(())
    }

    fn refuse_if_held(&self, resource: &str) -> Result<(), Refusal> {
        match self
            .faults
            .iter()
            .find(|held| held.holds() && held.entry.resource == resource)
        {
            None => Ok(()),
            Some(other) => Err(Refusal::Conflict(format!(
                "{} {} holds `{resource}`; revert it first",
                other.fault.kind, other.fault.id
            ))),
        }
    }

    fn find(&mut self, id: &str) -> Result<&mut Held, Refusal> {
        self.faults
            .iter_mut()
            .find(|held| held.fault.id == id)
            .ok_or_else(|| Refusal::Unknown(format!("this agent knows no fault `{id}`")))
    }

    fn forget_oldest(&mut self) {
        if self.faults.len() > REMEMBERED_MAX {
            if let Some(oldest) = self.faults.iter().position(|held| !held.holds()) {
                self.faults.remove(oldest);
            }
        }
    }
}

impl Held {
    fn new(entry: Entry, now: Moment, reason: RevertReason) -> Held {
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
        Held {
            fault,
            entry,
            due: now.uptime,
            reason,
            meter: None,
        }
    }

    /// The fault as it is now.
    fn told(&self) -> Fault {
        let measured = self.meter.as_ref().map(Meter::dose);
        Fault {
            dose: measured.or_else(|| self.fault.dose.clone()),
            ..self.fault.clone()
        }
    }

    fn holds(&self) -> bool {
        self.fault.state != FaultState::Reverted
    }
}

fn lease(lease_s: f64) -> Result<Duration, Refusal> {
    if lease_s > 0.0 && lease_s <= LEASE_S_MAX {
        return Ok(Duration::from_secs_f64(lease_s));
    }
    Err(Refusal::Invalid(format!(
        "lease_s must be over 0 and at most {LEASE_S_MAX}, not {lease_s}"
    )))
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
