//! The life of a fault, with a fault that records what is asked of it and fails when told to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::config::tests::example_in;
use crate::faults::dose::{DoseReader, Reading, Scale};
use crate::faults::parameter::Parameter;
use crate::faults::Fault as FaultKind;
use crate::machine::cgroup::Cgroups;
use crate::machine::role::Role;

#[path = "engine_holds_tests.rs"]
mod holds;

/// The calls that the fault saw, and its behaviour.
#[derive(Default)]
struct Script {
    calls: Vec<String>,
    journal_at_injection: Option<bool>,
    inject_fails: bool,
    undo_fails: bool,
    /// That of the next fault.
    reader: Option<Gated>,
}

/// A reader that says when it looks, and looks until it is let go on.
struct Gated {
    looks: Sender<&'static str>,
    go_on: Receiver<()>,
}

impl DoseReader for Gated {
    fn look(&mut self, _held: Duration) -> Result<()> {
        self.looks.send("look")?;
        self.go_on.recv()?;
        Ok(())
    }

    fn reading(&self) -> Reading {
        Reading { asked: Some(2.0), ..Reading::default() }
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        // The test may be over.
        let _ = self.looks.send("gone");
    }
}

/// Has the next fault measured by a gated reader: what it says, and what lets it go on.
fn gated(bench: &Bench) -> (Receiver<&'static str>, Sender<()>) {
    let ((sender, looks), (go_on, receiver)) = (channel(), channel());
    bench.script.lock().unwrap().reader = Some(Gated { looks: sender, go_on: receiver });
    (looks, go_on)
}

struct Scripted {
    script: Arc<Mutex<Script>>,
    journal: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Parameters {
    place: String,
}

#[derive(Serialize, Deserialize)]
struct Record {
    id: String,
}

impl FaultKind for Scripted {
    const KIND: &'static str = "test.scripted";
    const SUMMARY: &'static str = "what the script says";
    const COMMANDS: &'static str = "the script";
    const UNDO: &'static str = "the script, backwards";
    const PARAMETERS: &'static [Parameter] = &[Parameter::string("place", "what it holds")];
    const DOSE: Scale = Scale { unit: "looks", how: "by the script" };
    type Parameters = Parameters;
    type Record = Record;

    fn capability(&self, _machine: &Machine) -> Result<()> {
        Ok(())
    }

    fn resource(&self, parameters: &Parameters) -> String {
        parameters.place.clone()
    }

    fn plan(
        &self,
        _machine: &Machine,
        id: &str,
        _parameters: &Parameters,
    ) -> Result<Record, Refusal> {
        Ok(Record { id: id.into() })
    }

    fn inject(&self, _machine: &Machine, record: &Record) -> Result<()> {
        let mut script = self.script.lock().unwrap();
        script.calls.push("inject".into());
        script.journal_at_injection =
            Some(self.journal.join(format!("{}.json", record.id)).is_file());
        anyhow::ensure!(!script.inject_fails, "the scripted injection fails");
        Ok(())
    }

    fn undo(&self, _machine: &Machine, _record: &Record) -> Result<()> {
        let mut script = self.script.lock().unwrap();
        script.calls.push("undo".into());
        anyhow::ensure!(!script.undo_fails, "the scripted undo fails");
        Ok(())
    }

    fn dose_reader(&self, _machine: &Arc<Machine>, _record: &Record) -> Box<dyn DoseReader> {
        let (looks, go_on) = (channel().0, channel().1);
        let gate = Gated { looks, go_on };
        Box::new(self.script.lock().unwrap().reader.take().unwrap_or(gate))
    }
}

struct Bench {
    engine: Engine,
    script: Arc<Mutex<Script>>,
    directory: TempDir,
}

fn bench() -> Bench {
    let directory = tempfile::tempdir().unwrap();
    let (engine, script) = engine_in(directory.path());
    Bench { engine, script, directory }
}

fn engine_in(directory: &Path) -> (Engine, Arc<Mutex<Script>>) {
    let config = example_in(directory);
    let cgroups = Arc::new(Cgroups::absent("a unit test"));
    let role = Role::new(&config, cgroups.clone());
    let journal = config.state_dir.join("journal");
    let machine = Arc::new(Machine {
        config,
        data: Err("a unit test".into()),
        cgroups,
        role,
        workers: crate::machine::workers::Workers::default(),
    });
    let script = Arc::new(Mutex::new(Script::default()));
    let kind = Scripted { script: script.clone(), journal: journal.clone() };
    (Engine::new(machine, vec![Box::new(kind)], Journal::open(journal).unwrap()), script)
}

fn at(uptime_s: u64) -> Moment {
    Moment { uptime: Duration::from_secs(uptime_s), wall_ms: 1_800_000_000_000 + uptime_s * 1000 }
}

fn request(place: &str, lease_s: f64) -> FaultRequest {
    FaultRequest { kind: "test.scripted".into(), parameters: json!({ "place": place }), lease_s }
}

fn settings(mode: &str) -> BTreeMap<String, String> {
    [("MODE".to_owned(), mode.to_owned())].into()
}

fn journalled(bench: &Bench) -> usize {
    std::fs::read_dir(bench.directory.path().join("state/journal")).unwrap().count()
}

#[test]
fn the_undo_record_is_on_disk_before_the_injection_and_gone_after_the_undo() {
    let bench = bench();
    let fault = bench.engine.inject(&request("a", 5.0), || at(0)).unwrap();
    assert_eq!(bench.script.lock().unwrap().journal_at_injection, Some(true));
    assert_eq!((journalled(&bench), bench.engine.active()), (1, 1));
    let fault = bench.engine.revert(&fault.id, || at(1)).unwrap();
    assert_eq!(fault.state, FaultState::Reverted);
    assert_eq!(fault.revert_reason, Some(RevertReason::Requested));
    assert_eq!((journalled(&bench), bench.engine.active()), (0, 0));
}

#[test]
fn without_a_journal_nothing_is_injected() {
    let bench = bench();
    let journal = bench.directory.path().join("state/journal");
    std::fs::remove_dir(&journal).unwrap();
    let error = bench.engine.inject(&request("a", 5.0), || at(0)).unwrap_err();
    assert!(matches!(error, Refusal::Failed(_)), "{error}");
    assert!(bench.script.lock().unwrap().calls.is_empty());
}

#[test]
fn reverting_twice_undoes_once() {
    let bench = bench();
    let fault = bench.engine.inject(&request("a", 5.0), || at(0)).unwrap();
    let first = bench.engine.revert(&fault.id, || at(1)).unwrap();
    let second = bench.engine.revert(&fault.id, || at(9)).unwrap();
    assert_eq!(first, second);
    assert_eq!(bench.script.lock().unwrap().calls, ["inject", "undo"]);
}

#[test]
fn a_lease_ends_when_it_is_due_and_not_before() {
    let bench = bench();
    bench.engine.inject(&request("a", 5.0), || at(10)).unwrap();
    assert!(bench.engine.expire(at(14)).is_empty());
    let faults = bench.engine.expire(at(15));
    assert_eq!(faults[0].revert_reason, Some(RevertReason::Lease));
    assert!(bench.engine.expire(at(16)).is_empty());
}

#[test]
fn a_renewed_lease_counts_from_the_renewal() {
    let bench = bench();
    let fault = bench.engine.inject(&request("a", 5.0), || at(0)).unwrap();
    let fault = bench.engine.renew(&fault.id, 5.0, at(4)).unwrap();
    assert_eq!(fault.expires_at_ms, at(9).wall_ms);
    assert!(bench.engine.expire(at(8)).is_empty());
    assert_eq!(bench.engine.expire(at(9)).len(), 1);
    let error = bench.engine.renew(&fault.id, 5.0, at(9)).unwrap_err();
    assert!(matches!(error, Refusal::Conflict(_)), "{error}");
}

#[test]
fn a_lease_out_of_range_is_refused() {
    let bench = bench();
    for lease_s in [0.0, -1.0, 600.1, f64::NAN, f64::INFINITY] {
        let error = bench.engine.inject(&request("a", lease_s), || at(0)).unwrap_err();
        assert!(matches!(error, Refusal::Invalid(_)), "{lease_s}: {error}");
    }
    assert!(bench.script.lock().unwrap().calls.is_empty());
    assert!(bench.engine.inject(&request("a", 600.0), || at(0)).is_ok());
}

#[test]
fn two_faults_never_hold_one_resource() {
    let bench = bench();
    let first = bench.engine.inject(&request("a", 5.0), || at(0)).unwrap();
    let error = bench.engine.inject(&request("a", 5.0), || at(0)).unwrap_err();
    assert!(matches!(&error, Refusal::Conflict(why) if why.contains(&first.id)), "{error}");
    bench.engine.inject(&request("b", 5.0), || at(0)).unwrap();
    bench.engine.revert(&first.id, || at(1)).unwrap();
    bench.engine.inject(&request("a", 5.0), || at(1)).unwrap();
}

#[test]
fn after_the_undo_of_sigterm_nothing_begins_any_more() {
    let bench = bench();
    let all = |reason| bench.engine.revert_all(reason, || at(1)).len();
    bench.engine.inject(&request("a", 5.0), || at(0)).unwrap();
    assert_eq!(all(RevertReason::Requested), 1);
    let fault = bench.engine.inject(&request("a", 5.0), || at(1)).unwrap();
    assert_eq!(all(RevertReason::Sigterm), 1);
    let refused = [
        bench.engine.inject(&request("a", 5.0), || at(2)).err(),
        bench.engine.renew(&fault.id, 5.0, at(2)).err(),
        bench.engine.stop_service(5.0, || at(2)).err(),
        bench.engine.start_service(|| at(2), |_| Ok(())).err(),
        bench.engine.set_settings(&settings("a"), 5.0, || at(2)).err(),
    ];
    for refusal in refused {
        let refusal = refusal.unwrap();
        assert!(
            matches!(&refusal, Refusal::Conflict(why) if why.contains("told to end")),
            "{refusal}"
        );
    }
    assert_eq!((journalled(&bench), bench.engine.active()), (0, 0));
    assert_eq!(bench.engine.revert(&fault.id, || at(2)).unwrap().id, fault.id);
}

#[test]
fn an_injection_that_fails_half_way_undoes_itself() {
    let bench = bench();
    bench.script.lock().unwrap().inject_fails = true;
    let error = bench.engine.inject(&request("a", 5.0), || at(0)).unwrap_err();
    assert!(matches!(&error, Refusal::Failed(why) if why.contains("is undone")), "{error}");
    assert_eq!(bench.script.lock().unwrap().calls, ["inject", "undo"]);
    assert_eq!((journalled(&bench), bench.engine.active()), (0, 0));
}

#[test]
fn an_undo_that_fails_is_told_kept_and_tried_again() {
    let bench = bench();
    let fault = bench.engine.inject(&request("a", 5.0), || at(0)).unwrap();
    bench.script.lock().unwrap().undo_fails = true;
    let error = bench.engine.revert(&fault.id, || at(1)).unwrap_err();
    assert!(error.to_string().contains("the scripted undo fails"), "{error}");
    assert_eq!(bench.engine.list()[0].state, FaultState::RevertFailed);
    assert_eq!((journalled(&bench), bench.engine.active()), (1, 1));
    bench.script.lock().unwrap().undo_fails = false;
    assert!(bench.engine.expire(at(1)).is_empty());
    let retried = bench.engine.expire(at(2));
    assert_eq!(retried[0].state, FaultState::Reverted);
    assert_eq!((retried[0].error.as_ref(), journalled(&bench)), (None, 0));
}

#[test]
fn a_restarted_agent_undoes_what_its_predecessor_left() {
    let bench = bench();
    let fault = bench.engine.inject(&request("a", 5.0), || at(0)).unwrap();
    let (successor, script) = engine_in(bench.directory.path());
    assert!(successor.replay(at(0)).unwrap().is_empty());
    assert_eq!(script.lock().unwrap().calls, ["undo"]);
    let old = &successor.list()[0];
    assert_eq!((&old.id, old.revert_reason), (&fault.id, Some(RevertReason::Restart)));
    assert_eq!(journalled(&bench), 0);
}

#[test]
fn a_record_that_nothing_can_be_undone_with_is_set_aside_and_holds_nothing() {
    let bench = bench();
    let fault = bench.engine.inject(&request("a", 5.0), || at(0)).unwrap();
    let journal = Journal::open(bench.directory.path().join("state/journal")).unwrap();
    let (mut entries, _) = journal.entries(|_| Ok(())).unwrap();
    let entry = entries.swap_remove(0);
    let strange = |id: &str, kind: &str| Entry {
        id: id.into(),
        kind: kind.into(),
        record: json!({ "no": "id" }),
        ..entry.clone()
    };
    journal.write(&strange("e1", "test.scripted")).unwrap();
    journal.write(&strange("e2", "net.unheard_of")).unwrap();
    let (successor, _) = engine_in(bench.directory.path());
    let messages = successor.replay(at(0)).unwrap().join(" ");
    for word in ["e1.json", "test.scripted", "e2.json", "net.unheard_of"] {
        assert!(messages.contains(word), "{messages}");
    }
    assert_eq!(successor.list().len(), 1);
    assert_eq!(successor.list()[0].id, fault.id);
    assert_eq!(successor.active(), 0);
    successor.inject(&request("a", 5.0), || at(1)).unwrap();
}

#[test]
fn all_faults_are_undone_the_newest_first() {
    let bench = bench();
    let ids: Vec<String> = ["a", "b", "c"]
        .map(|place| bench.engine.inject(&request(place, 5.0), || at(0)).unwrap().id)
        .to_vec();
    let faults = bench.engine.revert_all(RevertReason::Sigterm, || at(1));
    let order: Vec<&String> = faults.iter().map(|fault| &fault.id).collect();
    assert_eq!(order, ids.iter().rev().collect::<Vec<_>>());
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "ids grow: {ids:?}");
}

#[test]
fn an_unknown_kind_is_refused_with_those_that_are_known() {
    let bench = bench();
    let request = FaultRequest { kind: "net.limb".into(), ..request("a", 5.0) };
    let error = bench.engine.inject(&request, || at(0)).unwrap_err();
    assert!(matches!(&error, Refusal::Invalid(why) if why.contains("test.scripted")), "{error}");
}

#[test]
fn what_a_fault_did_is_told_while_it_is_held_and_kept_once_it_is_undone() {
    let bench = bench();
    let (looks, go_on) = gated(&bench);
    let fault = bench.engine.inject(&request("a", 5.0), || at(0)).unwrap();
    let dose = fault.dose.unwrap();
    assert_eq!((dose.asked, dose.samples), (Some(2.0), 0));
    assert_eq!(looks.recv().unwrap(), "look");
    go_on.send(()).unwrap();
    // The second look begins when the first is told of.
    assert_eq!(looks.recv().unwrap(), "look");
    let dose = bench.engine.list()[0].dose.clone().unwrap();
    assert_eq!((dose.asked, dose.samples), (Some(2.0), 1));
    assert_eq!((dose.unit.as_str(), dose.bit), ("looks", None));
    let fault = bench.engine.revert(&fault.id, || at(1)).unwrap();
    assert_eq!(fault.dose, Some(dose));
}

#[test]
fn an_undo_waits_for_no_look_and_what_that_finds_late_is_thrown_away() {
    let bench = bench();
    let (looks, go_on) = gated(&bench);
    let fault = bench.engine.inject(&request("a", 5.0), || at(0)).unwrap();
    assert_eq!(looks.recv().unwrap(), "look");
    let fault = bench.engine.revert(&fault.id, || at(1)).unwrap();
    assert_eq!(fault.state, FaultState::Reverted);
    go_on.send(()).unwrap();
    assert_eq!(looks.recv().unwrap(), "gone");
    assert_eq!(bench.engine.list()[0].dose.as_ref().unwrap().samples, 0);
}

#[test]
fn a_look_that_fails_is_told_and_hinders_nothing() {
    let bench = bench();
    let (looks, go_on) = gated(&bench);
    let fault = bench.engine.inject(&request("a", 5.0), || at(0)).unwrap();
    drop(go_on);
    assert_eq!([looks.recv().unwrap(), looks.recv().unwrap()], ["look"; 2]);
    let fault = bench.engine.revert(&fault.id, || at(1)).unwrap();
    assert!(fault.dose.unwrap().problem.is_some());
}

#[test]
fn what_an_earlier_agent_injected_has_no_dose() {
    let bench = bench();
    bench.engine.inject(&request("a", 5.0), || at(0)).unwrap();
    let (successor, _) = engine_in(bench.directory.path());
    successor.replay(at(0)).unwrap();
    assert_eq!(successor.list()[0].dose, None);
}
