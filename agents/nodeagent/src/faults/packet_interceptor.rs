//! The data interface's packets, led through this process on their way: what `net.delay`,
//! `net.reorder` and `net.corrupt` share.
//!
//! An nft table of our own leads IPv4 packets to a TAP device, and what is written to it goes on:
//! outgoing packets, told by their source's MAC address, to the data interface with a mark so that
//! they are not led away again; incoming ones to the machine itself, as if the device were the data
//! interface. It needs no netem and no nft queue, which kernels may lack. The kernel cuts large
//! segments and completes checksums before the device, so a packet here is one of the wire.
//!
//! The device is gone with the process, and the undo deletes the table first: packets pass by then.
//! Packets held at that moment are lost, as with netem.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, Result};
use rand::rngs::SmallRng;
use rand::SeedableRng;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::dose::{share, DoseReader, Reading, Scale};
use super::net_loss::Direction;
use super::packet_queue::{Counts, PacketTransform, Queue};
use super::parameter::Parameter;
use super::{nft, Fault, Planned};
use crate::machine::network::traffic;
use crate::machine::tap::{mac_of, Tap};
use crate::machine::workers::Stop;
use crate::machine::Machine;

/// The resource of faults that change a packet's way through the machine, one at a time.
pub const WAY: &str = "net.way";

/// Maximum time until the thread notices that it must end.
const STOP_SEEN_WITHIN: Duration = Duration::from_millis(50);
const FRAME_BYTES_MAX: usize = 65_536;
const PREFIX: &str = "sparecraft_passage_";
const TRIAL: &str = "sparecraft_probe_passage";
const TRIAL_DEVICE: &str = "sc-probe-tap";

/// A fault of packets that pass the agent; the rest of a [`Fault`] is the same.
pub trait PacketFault: Send + Sync + 'static {
    const KIND: &'static str;
    const SUMMARY: &'static str;
    const COMMANDS: &'static str;
    const PARAMETERS: &'static [Parameter];
    const DOSE: Scale;
    type Parameters: Clone + Serialize + DeserializeOwned;

    /// Direction of the packets.
    fn direction(parameters: &Self::Parameters) -> Direction;
    /// The effect on each of them.
    fn transform(parameters: &Self::Parameters, rng: SmallRng) -> Box<dyn PacketTransform>;
    /// The dose to measure.
    fn goal(parameters: &Self::Parameters) -> Goal;
}

pub struct Intercepted<F>(pub F);

#[derive(Serialize, Deserialize)]
pub struct Record<P> {
    passage: PacketInterceptor,
    parameters: P,
}

impl<F: PacketFault> Fault for Intercepted<F> {
    const KIND: &'static str = F::KIND;
    const SUMMARY: &'static str = F::SUMMARY;
    const COMMANDS: &'static str = F::COMMANDS;
    const UNDO: &'static str =
        "nft delete table netdev sparecraft_passage_ID; the device is closed";
    const PARAMETERS: &'static [Parameter] = F::PARAMETERS;
    const DOSE: Scale = F::DOSE;
    type Parameters = F::Parameters;
    type Record = Record<F::Parameters>;

    /// Makes a device like the data interface and lets the kernel check a table, and takes the
    /// device away; no packet passes either.
    fn capability(&self, machine: &Machine) -> Result<()> {
        let data = machine.data()?;
        let tap = Tap::like(&data.name, TRIAL_DEVICE)?;
        let mac = mac_of(TRIAL_DEVICE)?;
        let hooks = Direction::Both.hooks();
        let result = nft::check(&ruleset(TRIAL, "lo", TRIAL_DEVICE, &mac, &hooks));
        drop(tap);
        result
    }

    fn resource(&self, _parameters: &Self::Parameters) -> String {
        WAY.into()
    }

    fn plan(
        &self,
        machine: &Machine,
        id: &str,
        parameters: &Self::Parameters,
    ) -> Planned<Self::Record> {
        Ok(Record {
            passage: PacketInterceptor::plan(machine, id, F::direction(parameters))?,
            parameters: parameters.clone(),
        })
    }

    fn inject(&self, machine: &Machine, record: &Self::Record) -> Result<()> {
        let transform = F::transform(&record.parameters, record.passage.rng());
        record.passage.open(machine, transform)
    }

    fn undo(&self, machine: &Machine, record: &Self::Record) -> Result<()> {
        record.passage.close(machine)
    }

    fn dose_reader(&self, machine: &Arc<Machine>, record: &Self::Record) -> Box<dyn DoseReader> {
        record.passage.dose_reader(machine, F::goal(&record.parameters))
    }
}

/// The table and device of one fault.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PacketInterceptor {
    id: String,
    table: String,
    device: String,
    interface: String,
    direction: Direction,
}

impl PacketInterceptor {
    /// Checks that nothing foreign is in the way.
    fn plan(machine: &Machine, id: &str, direction: Direction) -> Planned<PacketInterceptor> {
        let data = machine.data()?;
        nft::refuse_foreign(PREFIX)?;
        Ok(PacketInterceptor {
            id: id.into(),
            table: format!("{PREFIX}{id}"),
            device: format!("sc-{id}"),
            interface: data.name.clone(),
            direction,
        })
    }

    /// Leads the packets through `transform`.
    fn open(&self, machine: &Machine, mut transform: Box<dyn PacketTransform>) -> Result<()> {
        let tap = Tap::like(&self.interface, &self.device)?;
        let mac = mac_of(&self.interface)?;
        let own = mac_bytes(&mac)?;
        let table = self.table.clone();
        let carried = move |counts: &Counts, stop: &Stop| {
            if let Err(error) = carry(&tap, own, &mut *transform, counts, stop) {
                // The device goes with this thread: without the table packets pass it by.
                let deletion = nft::delete(&table);
                let reason = format!("packets are not held any more: {error:#}, {deletion:?}");
                *counts.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
            }
        };
        let counts = Arc::new(Counts::default());
        machine.workers.start(&self.id, counts, carried)?;
        let hooks = self.direction.hooks();
        let rules = ruleset(&self.table, &self.interface, &self.device, &mac, &hooks);
        nft::load(&rules)
    }

    /// Ends the interception; packets bypass the device before it is removed.
    fn close(&self, machine: &Machine) -> Result<()> {
        let result = nft::delete(&self.table);
        machine.workers.stop(&self.id);
        result
    }

    /// The reader of its dose.
    fn dose_reader(&self, machine: &Machine, goal: Goal) -> Box<dyn DoseReader> {
        Box::new(PacketDose {
            counts: machine.workers.shared(&self.id).unwrap_or_default(),
            interface: self.interface.clone(),
            goal,
            bypass: Bypass::default(),
        })
    }

    /// Random numbers, different for each fault.
    fn rng(&self) -> SmallRng {
        let number = u64::from_str_radix(self.id.trim_start_matches('f'), 16);
        SmallRng::seed_from_u64(number.unwrap_or_default())
    }
}

fn carry(
    tap: &Tap,
    own: [u8; 6],
    transform: &mut dyn PacketTransform,
    counts: &Counts,
    stop: &Stop,
) -> Result<()> {
    let (start, mut queue) = (Instant::now(), Queue::default());
    let mut buffer = vec![0; FRAME_BYTES_MAX];
    while !stop.is_stopped() {
        let until_due = queue.due().map(|due| due.saturating_sub(start.elapsed()));
        tap.wait(until_due.map_or(STOP_SEEN_WITHIN, |wait| wait.min(STOP_SEEN_WITHIN)))?;
        while let Some(length) = tap.receive(&mut buffer)? {
            let frame = &buffer[..length];
            if is_ipv4(frame) {
                let is_outgoing = frame[6..12] == own;
                queue.take(frame.into(), is_outgoing, start.elapsed(), transform, counts);
            }
            send_due(tap, &mut queue, start, transform, counts)?;
        }
        send_due(tap, &mut queue, start, transform, counts)?;
    }
    Ok(())
}

fn send_due(
    tap: &Tap,
    queue: &mut Queue,
    start: Instant,
    transform: &dyn PacketTransform,
    counts: &Counts,
) -> Result<()> {
    while let Some(frame) = queue.next(start.elapsed(), transform, counts) {
        tap.send(&frame)?;
    }
    Ok(())
}

/// True for IPv4: the kernel itself sends IPv6 neighbour packets over any link.
fn is_ipv4(frame: &[u8]) -> bool {
    frame.len() > 14 && frame[12..14] == [0x08, 0x00]
}

fn mac_bytes(mac: &str) -> Result<[u8; 6]> {
    let bytes: Option<Vec<u8>> =
        mac.split(':').map(|part| u8::from_str_radix(part, 16).ok()).collect();
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| anyhow!("expected a MAC address of six bytes (got {mac})"))
}

/// Incoming packets come here after the other faults' hooks, and go on where those are not passed
/// again; outgoing ones pass them when they come back.
fn ruleset(table: &str, interface: &str, device: &str, mac: &str, hooks: &[String]) -> String {
    const MARK: &str = "0x5ca05ca0";
    let mut text = format!("table netdev {table} {{\n");
    for hook in hooks {
        let (priority, unless) = match hook.as_str() {
            "egress" => (-20, format!("meta mark != {MARK} ")),
            _ => (10, String::new()),
        };
        text += &format!(
            "chain {hook} {{ type filter hook {hook} device \"{interface}\" \
             priority {priority}; policy accept\n\
             {unless}meta protocol ip fwd to \"{device}\"\n}}\n"
        );
    }
    text += &format!(
        "chain back {{ type filter hook ingress device \"{device}\" priority 0; policy accept\n\
         ether saddr {mac} meta mark set {MARK} fwd to \"{interface}\"\n}}\n"
    );
    text + "}\n"
}

/// The asked dose.
#[derive(Debug, Clone, Copy)]
pub enum Goal {
    /// Mean time for which a packet is held [ms].
    HeldMs(f64),
    /// A share of them to be struck (0 to 1).
    Share(f64),
    /// A share to be overtaken, where there are others to do so.
    Overtaken(f64),
}

struct PacketDose {
    counts: Arc<Counts>,
    interface: String,
    goal: Goal,
    bypass: Bypass,
}

/// Packets that take another way than through the interceptor.
#[derive(Default)]
struct Bypass {
    /// Packets that had gone through the interceptor, and over the interface.
    last: Option<(u64, u64)>,
    looks: u32,
    is_certain: bool,
}

impl Bypass {
    /// Notes the packets so far. One look decides nothing: the last packets of a burst may still be
    /// held, or not yet be read, while the interface counts them.
    fn look(&mut self, taken: u64, carried: u64) {
        if let Some((taken_before, carried_before)) = self.last {
            if taken != taken_before {
                self.looks = 0;
            } else if carried.saturating_sub(carried_before) >= PASSED_BY_MIN {
                self.looks += 1;
            }
            self.is_certain |= self.looks >= PASSED_BY_LOOKS;
        }
        self.last = Some((taken, carried));
    }
}

/// Packets over the interface after which none in the interceptor means that they take another way.
const PASSED_BY_MIN: u64 = 20;
/// Looks that say so, with none in between that saw a packet in the interceptor.
const PASSED_BY_LOOKS: u32 = 2;
/// Minimum packets for a mean.
const PACKETS_MIN: u64 = 5;
/// Share of the requested delay that counts as a bite.
const HELD_SHARE_MIN: f64 = 0.8;

impl DoseReader for PacketDose {
    fn look(&mut self, _held: Duration) -> Result<()> {
        let end = self.counts.end.lock();
        if let Some(reason) = &*end.unwrap_or_else(PoisonError::into_inner) {
            bail!("{reason}");
        }
        let counters = traffic(&self.interface).unwrap_or_default();
        self.bypass.look(get(&self.counts.taken), counters.rx_packets + counters.tx_packets);
        Ok(())
    }

    fn reading(&self) -> Reading {
        let reading = match self.goal {
            Goal::Share(asked) => self.share(asked),
            Goal::Overtaken(asked) => {
                let some = (get(&self.counts.struck) > 0).then_some(true);
                Reading { bit: some, ..self.share(asked) }
            }
            Goal::HeldMs(asked) => self.mean(asked),
        };
        let bit = if self.bypass.is_certain { Some(false) } else { reading.bit };
        Reading { bit, ..reading }
    }
}

impl PacketDose {
    fn share(&self, asked: f64) -> Reading {
        let (total, struck) = (get(&self.counts.taken), get(&self.counts.struck));
        share(asked, total as f64, struck as f64)
    }

    fn mean(&self, asked: f64) -> Reading {
        let passed = get(&self.counts.passed);
        let mean = get(&self.counts.held_us) as f64 / 1e3 / passed.max(1) as f64;
        Reading {
            asked: Some(asked),
            measured: (passed > 0).then_some(mean),
            bit: (passed >= PACKETS_MIN).then_some(mean >= HELD_SHARE_MIN * asked),
            ..Reading::default()
        }
    }
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outgoing_packets_are_led_away_once_and_incoming_ones_after_all_other_hooks() {
        let text = ruleset("t", "eth1", "sc-f1", "02:00:00:00:00:07", &Direction::Both.hooks());
        assert!(text.contains("priority -20; policy accept\nmeta mark != 0x5ca05ca0 "), "{text}");
        assert!(text.contains("device \"eth1\" priority 10; policy accept\nmeta protocol ip fwd"));
        assert_eq!(text.matches("fwd to \"sc-f1\"").count(), 2);
        assert_eq!(text.matches("fwd to \"eth1\"").count(), 1);
        let one_way = ruleset("t", "eth1", "sc-f1", "02:00:00:00:00:07", &["egress".into()]);
        assert!(!one_way.contains("hook ingress device \"eth1\""), "{one_way}");
    }

    fn read(goal: Goal, counts: Counts, passed_by: bool) -> Reading {
        let reader = PacketDose {
            counts: Arc::new(counts),
            interface: String::new(),
            goal,
            bypass: Bypass { is_certain: passed_by, ..Bypass::default() },
        };
        reader.reading()
    }

    fn counts(taken: u64, struck: u64, held_us: u64) -> Counts {
        Counts {
            taken: taken.into(),
            struck: struck.into(),
            passed: taken.into(),
            held_us: held_us.into(),
            ..Counts::default()
        }
    }

    #[test]
    fn a_delay_bit_where_packets_were_held_for_it_on_average() {
        let reading = read(Goal::HeldMs(20.0), counts(10, 0, 210_000), false);
        assert_eq!((reading.measured, reading.bit), (Some(21.0), Some(true)));
        let reading = read(Goal::HeldMs(20.0), counts(10, 0, 150_000), false);
        assert_eq!(reading.bit, Some(false));
        let reading = read(Goal::HeldMs(20.0), counts(3, 0, 60_000), false);
        assert_eq!((reading.measured, reading.bit), (Some(20.0), None));
        assert_eq!(read(Goal::HeldMs(20.0), counts(0, 0, 0), false).measured, None);
    }

    #[test]
    fn packets_that_went_over_the_interface_past_the_queue_were_not_struck() {
        let by = read(Goal::Share(0.1), counts(1_000, 100, 0), true);
        assert_eq!((by.measured, by.bit), (Some(10.0), Some(false)));
        assert_eq!(read(Goal::Share(0.1), counts(1_000, 100, 0), false).bit, Some(true));
    }

    #[test]
    fn a_bypass_is_seen_twice_without_a_packet_in_between() {
        let mut bypass = Bypass::default();
        // The second look met the last 50 packets of a burst, which were held before.
        for (taken, carried) in [(0, 0), (4_000, 3_950), (4_000, 4_000), (4_010, 4_040)] {
            bypass.look(taken, carried);
            assert!(!bypass.is_certain);
        }
        bypass.look(4_010, 4_080);
        bypass.look(4_010, 4_080);
        assert!(!bypass.is_certain);
        bypass.look(4_010, 4_120);
        assert!(bypass.is_certain);
    }

    #[test]
    fn only_ipv4_frames_of_full_head_are_the_machines() {
        let frame = |kind: [u8; 2], length: usize| {
            let mut frame = vec![0; length];
            frame[12..14].copy_from_slice(&kind);
            frame
        };
        assert!(is_ipv4(&frame([0x08, 0x00], 60)));
        assert!(!is_ipv4(&frame([0x86, 0xdd], 60)));
        assert!(!is_ipv4(&frame([0x08, 0x00], 14)));
        assert!(mac_bytes("02:00").is_err() && mac_bytes("02:00:00:00:00:zz").is_err());
    }
}
