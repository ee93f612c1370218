//! Actions of the runner that are no faults: a stopped service, changed settings.
//!
//! Each is held like a fault, listed with them, renewed and undone by its id: the undo record is on
//! disk first, the lease is finite. One of each kind is held at a time; if another follows, the
//! first record stays, because it has the original state. Settings outlive a restart of the agent
//! until their lease ends, so a machine that is crashed on purpose returns with its arm's settings.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use wire::agent::{Fault, RevertReason, ServiceState};

use super::{lease, Engine, Episode, State};
use crate::clock::Moment;
use crate::faults::Refusal;
use crate::journal::Entry;
use crate::machine::role::Role;
use crate::machine::Machine;

/// The resource that a hold has, and no fault may have meanwhile.
const ROLE: &str = "role";

/// A held state of the role, with its undo.
pub trait Hold: Sync {
    /// Its name in the list of faults.
    fn name(&self) -> &'static str;
    /// True if a restarted agent goes on with it, rather than undoing it.
    fn outlasts_the_agent(&self) -> bool;
    /// Refuses a record that is not an undo record of it.
    fn check_record(&self, record: &Value) -> Result<()>;
    /// Undoes it, also if it was never or only partly done, or is undone already.
    fn undo(&self, machine: &Machine, record: &Value) -> Result<()>;
}

struct ServiceStop;

impl Hold for ServiceStop {
    fn name(&self) -> &'static str {
        "service.stop"
    }

    fn outlasts_the_agent(&self) -> bool {
        false
    }

    fn check_record(&self, _record: &Value) -> Result<()> {
        Ok(())
    }

    fn undo(&self, machine: &Machine, _record: &Value) -> Result<()> {
        machine.role.start()
    }
}

struct Settings;

#[derive(Serialize, Deserialize)]
struct SettingsRecord {
    before: BTreeMap<String, String>,
}

impl Settings {
    fn record(record: &Value) -> Result<SettingsRecord> {
        serde_json::from_value(record.clone()).context("the undo record of settings")
    }
}

impl Hold for Settings {
    fn name(&self) -> &'static str {
        "settings"
    }

    fn outlasts_the_agent(&self) -> bool {
        true
    }

    fn check_record(&self, record: &Value) -> Result<()> {
        Settings::record(record).map(drop)
    }

    fn undo(&self, machine: &Machine, record: &Value) -> Result<()> {
        machine.role.set(&Settings::record(record)?.before).map(drop)
    }
}

/// The hold of this name, if there is one.
pub fn of(name: &str) -> Option<&'static dyn Hold> {
    let all: [&'static dyn Hold; 2] = [&ServiceStop, &Settings];
    all.into_iter().find(|hold| hold.name() == name)
}

impl Engine {
    /// Stops the service until its lease ends or it is started; a service that did not run is not
    /// held.
    pub fn stop_service(
        &self,
        lease_s: f64,
        now: impl Fn() -> Moment,
    ) -> Result<Option<Fault>, Refusal> {
        lease(lease_s)?;
        let mut state = self.lock_role()?;
        let role = &self.machine.role;
        if role.service() == ServiceState::Stopped && state.current(&ServiceStop).is_none() {
            return Ok(None);
        }
        let entry = state.entry_of(&ServiceStop, json!({}), lease_s, json!({}), &now);
        let fault = self.arm(&mut state, entry, now, |_| role.stop().map(|()| None))?;
        Ok(Some(fault))
    }

    /// Starts the service by `act`, which ends a held stop.
    pub fn start_service(
        &self,
        now: impl Fn() -> Moment,
        act: impl FnOnce(&Role) -> Result<()>,
    ) -> Result<(), Refusal> {
        let mut state = self.lock_role()?;
        act(&self.machine.role)?;
        self.end(&mut state, &ServiceStop, now());
        Ok(())
    }

    /// Replaces the settings until their lease ends; unchanged settings are not held. Returns true
    /// if the service was restarted.
    pub fn set_settings(
        &self,
        settings: &BTreeMap<String, String>,
        lease_s: f64,
        now: impl Fn() -> Moment,
    ) -> Result<(bool, Option<Fault>), Refusal> {
        lease(lease_s)?;
        let mut state = self.lock_role()?;
        let role = &self.machine.role;
        let before = match state.current(&Settings) {
            Some(episode) => Settings::record(&episode.entry.record)?.before,
            None => role.environment().settings()?,
        };
        if *settings == before {
            let restarted = role.set(settings)?;
            self.end(&mut state, &Settings, now());
            return Ok((restarted, None));
        }
        let (parameters, record) = (json!(settings), json!(SettingsRecord { before }));
        let entry = state.entry_of(&Settings, parameters, lease_s, record, &now);
        let mut restarted = false;
        let fault = self.arm(&mut state, entry, now, |_| {
            restarted = role.set(settings)?;
            Ok(None)
        })?;
        Ok((restarted, Some(fault)))
    }

    fn lock_role(&self) -> Result<std::sync::MutexGuard<'_, State>, Refusal> {
        let mut state = self.lock();
        state.refuse_if_ended()?;
        state.refuse_if_held(ROLE)?;
        Ok(state)
    }

    fn end(&self, state: &mut State, hold: &dyn Hold, now: Moment) {
        if let Some(episode) = state.current(hold) {
            self.revert_one(episode, RevertReason::Requested, now);
        }
    }
}

impl State {
    fn current(&mut self, hold: &dyn Hold) -> Option<&mut Episode> {
        self.active().find(|episode| episode.entry.kind == hold.name())
    }

    /// Makes an entry that replaces the held one.
    fn entry_of(
        &mut self,
        hold: &dyn Hold,
        parameters: Value,
        lease_s: f64,
        record: Value,
        now: impl Fn() -> Moment,
    ) -> Entry {
        let written_at_ms = now().wall_ms;
        let id = self.current(hold).map(|episode| episode.fault.id.clone());
        Entry {
            id: id.unwrap_or_else(|| self.next_id(written_at_ms)),
            kind: hold.name().into(),
            resource: hold.name().into(),
            parameters,
            lease_s,
            written_at_ms,
            record,
        }
    }
}
