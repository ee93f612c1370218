//! Traces that a fault could leave, as text that can be compared: qdiscs, nft rules, links,
//! addresses, routes, cgroup limits, mounts of faults, stopped processes and interference processes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wire::agent::{Fingerprint, Snapshot};

use super::cgroup::Cgroups;
use super::command::run;
use super::disk::root_device;
use super::processes::{self, Process};
use super::FAULT_MARK;

/// Prefix of the source of a fault's own mount.
pub const MOUNT_MARK: &str = "sparecraft_";

/// The baseline and the life of the machine that it belongs to.
#[derive(Serialize, Deserialize)]
struct Kept {
    life: String,
    snapshot: Snapshot,
}

/// Takes a snapshot of the machine.
pub fn take(cgroups: &Cgroups) -> Result<Snapshot> {
    let mut snapshot = Snapshot::new();
    snapshot.insert("qdisc".into(), qdiscs(&run("tc", &["-j", "qdisc", "show"])?)?);
    snapshot.insert("nft".into(), tables(&run("nft", &["--stateless", "list", "ruleset"])?));
    snapshot.insert("link".into(), links(&run("ip", &["-j", "address", "show"])?)?);
    snapshot.insert("route".into(), routes(&run("ip", &["route", "show", "table", "all"])?));
    snapshot.insert("cgroup".into(), limits(cgroups));
    snapshot.insert("mount".into(), mounts(&fs::read_to_string("/proc/self/mounts")?));
    snapshot.insert("process".into(), leftovers(&processes::list()));
    Ok(snapshot)
}

/// The baseline of this life of the machine: the one kept by an earlier agent, else a new one.
pub fn baseline(file: &Path, cgroups: &Cgroups) -> Result<Snapshot> {
    let life = life();
    let record =
        fs::read_to_string(file).ok().and_then(|text| serde_json::from_str::<Kept>(&text).ok());
    if let Some(record) = record.filter(|record| record.life == life) {
        return Ok(record.snapshot);
    }
    let snapshot = take(cgroups)?;
    let record = Kept { life, snapshot };
    fs::write(file, serde_json::to_string(&record)?)
        .with_context(|| format!("cannot keep the baseline in {}", file.display()))?;
    Ok(record.snapshot)
}

/// Compares two snapshots.
pub fn compare(baseline: &Snapshot, now: Snapshot) -> Fingerprint {
    let mut differences = Vec::new();
    let empty = BTreeMap::new();
    for (section, before) in baseline {
        let after = now.get(section).unwrap_or(&empty);
        for (thing, was) in before {
            match after.get(thing) {
                None => differences.push(format!("{section} {thing} is gone; it was: {was}")),
                Some(is) if is != was => {
                    differences.push(format!("{section} {thing} changed from: {was}; to: {is}"));
                }
                Some(_) => {}
            }
        }
    }
    for (section, after) in &now {
        let before = baseline.get(section).unwrap_or(&empty);
        for (thing, is) in after.iter().filter(|(thing, _)| !before.contains_key(*thing)) {
            differences.push(format!("{section} {thing} is new: {is}"));
        }
    }
    Fingerprint { baseline: baseline.clone(), now, clean: differences.is_empty(), differences }
}

/// Identity of this life of the machine; changes with every boot of the kernel, network name space
/// and first process.
fn life() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let network = fs::read_link("/proc/self/ns/net").unwrap_or_default();
    let first = processes::find(1).map_or(0, |process| process.start_ticks);
    format!("{} {} {first}", boot.trim(), network.display())
}

fn qdiscs(json: &str) -> Result<BTreeMap<String, String>> {
    let all: Vec<Value> = serde_json::from_str(json).context("`tc -j qdisc`")?;
    let describe = |qdisc: &Value| {
        let place = qdisc["parent"].as_str().unwrap_or("root");
        let key = format!("{} {place}", qdisc["dev"].as_str().unwrap_or("?"));
        let kind = qdisc["kind"].as_str().unwrap_or("?");
        let handle = qdisc["handle"].as_str().unwrap_or("?");
        (key, format!("{kind} {handle} {}", qdisc["options"]))
    };
    Ok(all.iter().map(describe).collect())
}

fn tables(ruleset: &str) -> BTreeMap<String, String> {
    let mut tables: BTreeMap<String, String> = BTreeMap::new();
    let mut current = String::new();
    for line in ruleset.lines() {
        if let Some(head) = line.strip_prefix("table ") {
            current = head.trim_end_matches([' ', '{']).to_owned();
            tables.entry(current.clone()).or_default();
        } else if let Some(text) = tables.get_mut(&current).filter(|_| line.trim() != "}") {
            *text += line.trim();
            *text += " ";
        }
    }
    tables
}

fn links(json: &str) -> Result<BTreeMap<String, String>> {
    let all: Vec<Value> = serde_json::from_str(json).context("`ip -j address`")?;
    let describe = |link: &Value| {
        let mut addresses: Vec<String> = link["addr_info"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|a| format!("{}/{}", a["local"].as_str().unwrap_or("?"), a["prefixlen"]))
            .collect();
        addresses.sort();
        let up =
            link["flags"].as_array().is_some_and(|flags| flags.iter().any(|flag| flag == "UP"));
        let text = format!(
            "{} {} mtu {} {}",
            if up { "up" } else { "down" },
            link["operstate"].as_str().unwrap_or("?"),
            link["mtu"],
            addresses.join(" ")
        );
        (link["ifname"].as_str().unwrap_or("?").to_owned(), text)
    };
    // The fault's own objects have names of their own, so an empty object is not an interface.
    Ok(all.iter().filter(|link| link["ifname"].is_string()).map(describe).collect())
}

fn routes(text: &str) -> BTreeMap<String, String> {
    let mut routes: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (destination, rest) = line.split_once(" dev ").unwrap_or((line, ""));
        let interface = rest.split(' ').next().unwrap_or_default();
        let entry = routes.entry(format!("{destination} {interface}")).or_default();
        // Two routes to one destination over one interface differ in the rest, e.g. the metric.
        *entry += rest;
        *entry += " ";
    }
    routes
}

/// Limits of the agent's own cgroup; the platform may change the machine's.
fn limits(cgroups: &Cgroups) -> BTreeMap<String, String> {
    let mut limits = BTreeMap::new();
    if let Ok(cpu) = &cgroups.cpu {
        let text = match cgroups.read_quota(&cpu.own) {
            Ok(None) => "unlimited".into(),
            Ok(Some(quota)) => format!("{} us in {} us", quota.quota_us, quota.period_us),
            Err(error) => format!("{error:#}"),
        };
        limits.insert(format!("cpu {}", cpu.own.display()), text);
    }
    if let (Ok(disk), Ok(device)) = (&cgroups.disk, root_device()) {
        let text = match cgroups.read_throttle(&disk.own, &device) {
            Ok(throttle) => format!("{throttle:?}"),
            Err(error) => format!("{error:#}"),
        };
        limits.insert(format!("disk {device} {}", disk.own.display()), text);
    }
    limits
}

fn mounts(text: &str) -> BTreeMap<String, String> {
    let of_fault = text.lines().filter(|line| line.starts_with(MOUNT_MARK));
    of_fault
        .filter_map(|line| line.split_once(' '))
        .map(|(source, rest)| (source.to_owned(), rest.to_owned()))
        .collect()
}

fn leftovers(all: &[Process]) -> BTreeMap<String, String> {
    let mut leftovers: BTreeMap<String, String> = BTreeMap::new();
    for process in all.iter().filter(|process| process.is_alive()) {
        let kind = if processes::has_variable(process.pid, FAULT_MARK) || process.name == "iperf3" {
            "interference"
        } else if process.is_stopped() {
            "stopped"
        } else {
            continue;
        };
        leftovers.insert(format!("{} {}", process.name, process.pid), kind.into());
    }
    leftovers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(section: &str, things: &[(&str, &str)]) -> Snapshot {
        let things = things.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Snapshot::from([(section.to_owned(), things)])
    }

    #[test]
    fn what_came_went_and_changed_is_told() {
        let before = snapshot("link", &[("eth0", "up"), ("eth1", "up")]);
        let now = snapshot("link", &[("eth1", "down"), ("ifb0", "up")]);
        let fingerprint = compare(&before, now);
        assert!(!fingerprint.clean);
        assert_eq!(
            fingerprint.differences,
            [
                "link eth0 is gone; it was: up",
                "link eth1 changed from: up; to: down",
                "link ifb0 is new: up"
            ]
        );
    }

    #[test]
    fn the_same_machine_is_clean() {
        let before = snapshot("route", &[("default", "eth0")]);
        assert!(compare(&before, before.clone()).clean);
    }

    #[test]
    fn tables_and_their_rules_are_told_apart() {
        let text = "table netdev a {\n\tchain i {\n\t\tdrop\n\t}\n}\ntable inet b {\n}\n";
        let tables = tables(text);
        assert_eq!(tables["netdev a"], "chain i { drop ");
        assert_eq!(tables["inet b"], "");
    }

    #[test]
    fn routes_are_keyed_by_destination_and_interface() {
        let routes = routes("default via 10.0.0.1 dev eth0 \n10.0.0.0/8 dev eth1 scope link \n");
        assert_eq!(
            routes.keys().collect::<Vec<_>>(),
            ["10.0.0.0/8 eth1", "default via 10.0.0.1 eth0"]
        );
    }
}
