//! The speed of a limping card in both directions, by the bytes that pass its two token buckets.
//!
//! A service that a good policy keeps away from the limping machine does not fill the card. So the
//! agent fills each bucket once, for a tenth of a second of its rate: outgoing by UDP broadcasts to the
//! discard port, which nobody answers and no router passes on; incoming at the `ifb` device, which
//! drops what did not come from the card. A small send buffer keeps the queue short meanwhile.
//! After that it only reads counters.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use serde_json::Value;
use socket2::SockRef;

use super::dose::{DoseReader, Reading};
use crate::machine::command::run;
use crate::machine::network::{traffic, TokenBucket, Traffic};

const DISCARD: u16 = 9;
const PAYLOAD_BYTES: usize = 1400;
const FRAME_BYTES: f64 = 1514.0;
const SEND_BUFFER_BYTES: usize = 8192;
const FILL_S: f64 = 0.1;
const FILL_BYTES_MIN: f64 = 6_000.0;
const FILL_BYTES_MAX: f64 = 256_000.0;
const FILL_LIMIT: Duration = Duration::from_millis(500);
const SEND_LIMIT: Duration = Duration::from_millis(50);
/// Packets that come to the card between two looks, of which some must have been led to the bucket.
const LED_OF: u64 = 20;
/// Looks in a row: one alone may have been taken just as they came.
const UNLED_LOOKS: u32 = 2;

/// Both directions of one card.
pub struct Flows {
    source: IpAddr,
    bucket: TokenBucket,
    out: Flow,
    in_: Flow,
    /// Packets that had come to the card, and through its `ifb` device, at the last look.
    arrived: Option<(Duration, u64, u64)>,
    unled_looks: u32,
}

/// One bucket.
struct Flow {
    device: String,
    passed: fn(&Traffic) -> u64,
    last: Option<(Instant, u64)>,
    overlimits: u64,
    held_back: bool,
    fastest_bit_per_s: Option<f64>,
    too_fast: bool,
}

impl Flows {
    /// The buckets at `interface` and `ingress`; `source` is the data address.
    pub fn new(source: IpAddr, bucket: TokenBucket, interface: &str, ingress: &str) -> Flows {
        Flows {
            source,
            bucket,
            out: Flow::new(interface, |counters| counters.tx_bytes),
            // Packets that leave an ifb device's queue count as received by it.
            in_: Flow::new(ingress, |counters| counters.rx_bytes),
            arrived: None,
            unled_looks: 0,
        }
    }

    /// True if packets come to the card and none to its bucket, though a few could have passed.
    fn look_at_way_in(&mut self, elapsed: Duration) -> Result<()> {
        let card = traffic(&self.out.device).context("the data interface is gone")?;
        let ifb = traffic(&self.in_.device).context("the ifb device is gone")?;
        // Packets that an ifb device hands on count as sent by it; its own packets it drops.
        self.way_in(elapsed, card.rx_packets, ifb.tx_packets);
        Ok(())
    }

    fn way_in(&mut self, now: Duration, card: u64, ifb: u64) {
        if let Some((before, card_before, ifb_before)) = self.arrived.replace((now, card, ifb)) {
            let bits = self.bucket.rate_bit_per_s as f64 * (now - before).as_secs_f64();
            let may_pass = bits > 2.0 * 8.0 * FRAME_BYTES;
            if ifb > ifb_before {
                self.unled_looks = 0;
            } else if card >= card_before + LED_OF && may_pass {
                self.unled_looks += 1;
            }
        }
    }

    fn is_unled(&self) -> bool {
        self.unled_looks >= UNLED_LOOKS
    }
}

impl DoseReader for Flows {
    fn look(&mut self, elapsed: Duration) -> Result<()> {
        let (start, is_first) = (Instant::now(), self.arrived.is_none());
        for flow in [&mut self.out, &mut self.in_] {
            if is_first {
                flow.fill(self.source, &self.bucket)?;
            }
            flow.look(&self.bucket)?;
        }
        self.look_at_way_in(elapsed + start.elapsed())?;
        let is_led = !self.is_unled();
        ensure!(is_led, "packets come to the card, and none to the bucket for them");
        Ok(())
    }

    /// Judges the dose: it bit if both buckets held packets back, and neither let more pass than
    /// allowed.
    fn reading(&self) -> Reading {
        let flows = [&self.out, &self.in_];
        let broken = self.is_unled() || flows.iter().any(|flow| flow.too_fast);
        let held_back = flows.iter().all(|flow| flow.held_back);
        let fastest = flows.iter().filter_map(|flow| flow.fastest_bit_per_s);
        Reading {
            asked: Some(self.bucket.rate_bit_per_s as f64 / 1e6),
            measured: fastest.reduce(f64::max).map(|rate| rate / 1e6),
            bit: (broken || held_back).then_some(!broken),
            ..Reading::default()
        }
    }
}

impl Flow {
    fn new(device: &str, passed: fn(&Traffic) -> u64) -> Flow {
        Flow {
            device: device.into(),
            passed,
            last: None,
            overlimits: 0,
            held_back: false,
            fastest_bit_per_s: None,
            too_fast: false,
        }
    }

    fn count(&self) -> Result<u64> {
        let counters = traffic(&self.device).with_context(|| format!("{} is gone", self.device))?;
        Ok((self.passed)(&counters))
    }

    /// Adds the bytes between two looks, at most `seconds` apart. A bucket passes its rate and, at
    /// once, its contents.
    fn add(&mut self, bytes: f64, seconds: f64, bucket: &TokenBucket) {
        let rate = bucket.rate_bit_per_s as f64 / 8.0;
        let burst = 2.0 * (bucket.burst_bytes as f64 + FRAME_BYTES);
        self.too_fast |= bytes > 1.1 * rate * seconds + burst;
        let peak = 8.0 * bytes / seconds.max(1e-6);
        self.fastest_bit_per_s = Some(self.fastest_bit_per_s.map_or(peak, |most| most.max(peak)));
    }

    /// Fills the bucket, and measures once its contents have passed.
    fn fill(&mut self, source: IpAddr, bucket: &TokenBucket) -> Result<()> {
        self.overlimits = overlimits(&self.device)?;
        let socket = socket_at(source, &self.device)?;
        let until = Instant::now() + FILL_LIMIT;
        let begin = self.count()?;
        let rate = bucket.rate_bit_per_s as f64 / 8.0;
        let goal = (FILL_S * rate).clamp(FILL_BYTES_MIN, FILL_BYTES_MAX) as u64;
        let (start, emptied) = self.send(&socket, begin + bucket.burst_bytes, until)?;
        let (_, end_count) = self.send(&socket, emptied + goal, until)?;
        let seconds = start.elapsed().as_secs_f64();
        self.look_at_queue()?;
        if end_count > emptied || self.held_back {
            self.add((end_count - emptied) as f64, seconds, bucket);
        }
        Ok(())
    }

    /// Sends until the bytes have passed or time is up; returns the bytes passed.
    fn send(&self, socket: &UdpSocket, count: u64, until: Instant) -> Result<(Instant, u64)> {
        loop {
            let now = Instant::now();
            let passed = self.count()?;
            if passed >= count || now >= until {
                return Ok((now, passed));
            }
            match socket.send_to(&[0; PAYLOAD_BYTES], (Ipv4Addr::BROADCAST, DISCARD)) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => {
                    return Err(error).with_context(|| format!("cannot send over {}", self.device))
                }
                _ => {}
            }
        }
    }

    fn look(&mut self, bucket: &TokenBucket) -> Result<()> {
        let now = Instant::now();
        let count = self.count()?;
        if let Some((before, count_before)) = self.last {
            let seconds = before.elapsed().as_secs_f64();
            self.add(count.saturating_sub(count_before) as f64, seconds, bucket);
        }
        self.last = Some((now, count));
        if !self.held_back {
            self.look_at_queue()?;
        }
        Ok(())
    }

    fn look_at_queue(&mut self) -> Result<()> {
        self.held_back |= overlimits(&self.device)? > self.overlimits;
        Ok(())
    }
}

/// A socket whose packets leave over `device`, few at a time.
fn socket_at(source: IpAddr, device: &str) -> Result<UdpSocket> {
    let socket = UdpSocket::bind((source, 0)).context("no socket at the data address")?;
    socket.set_broadcast(true)?;
    socket.set_write_timeout(Some(SEND_LIMIT))?;
    let options = SockRef::from(&socket);
    options.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    options
        .bind_device(Some(device.as_bytes()))
        .with_context(|| format!("cannot bind a socket to {device}"))?;
    Ok(socket)
}

/// Times that the bucket at a device's root made packets wait.
fn overlimits(device: &str) -> Result<u64> {
    let text = run("tc", &["-s", "-j", "qdisc", "show", "dev", device])?;
    let qdiscs: Vec<Value> = serde_json::from_str(&text).context("`tc -s -j qdisc`")?;
    let bucket = qdiscs.iter().find(|qdisc| qdisc["kind"] == "tbf");
    bucket
        .and_then(|qdisc| qdisc["overlimits"].as_u64())
        .with_context(|| format!("{device} has no token bucket"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::network::ETHERNET_MTU_BYTES;

    /// 2 Mbit/s with a burst of 3,200 bytes: 250 kB/s.
    fn flow_of(passed: &[(f64, f64)]) -> Flow {
        let mut flow = Flow::new("eth1", |counters| counters.tx_bytes);
        for (bytes, seconds) in passed {
            flow.add(*bytes, *seconds, &TokenBucket::for_rate(2_000_000, ETHERNET_MTU_BYTES));
        }
        flow
    }

    fn flows(out: Flow, in_: Flow) -> Flows {
        Flows {
            out,
            in_,
            ..Flows::new(
                Ipv4Addr::LOCALHOST.into(),
                TokenBucket::for_rate(2_000_000, ETHERNET_MTU_BYTES),
                "eth1",
                "sc-f1",
            )
        }
    }

    #[test]
    fn a_bucket_may_let_pass_its_rate_and_what_it_holds_at_once() {
        assert!(!flow_of(&[(25_000.0, 0.1), (250_000.0, 1.0)]).too_fast);
        assert!(!flow_of(&[(9_000.0, 0.001)]).too_fast);
        assert!(flow_of(&[(25_000.0, 0.001)]).too_fast);
        assert!(flow_of(&[(300_000.0, 1.0)]).too_fast);
    }

    #[test]
    fn packets_that_come_and_are_led_nowhere_are_no_limp_however_full_the_buckets() {
        let full = || Flow { held_back: true, ..flow_of(&[(25_000.0, 0.1)]) };
        let bite = |looks: &[(u64, u64)]| {
            let mut flows = flows(full(), full());
            for (second, (come, led)) in (0..).zip(looks) {
                flows.way_in(Duration::from_secs(second), *come, *led);
            }
            flows.reading().bit
        };
        assert_eq!(bite(&[(0, 0), (40, 0), (80, 0)]), Some(false));
        assert_eq!(bite(&[(0, 0), (40, 0), (41, 0), (80, 0)]), Some(false));
        assert_eq!(bite(&[(0, 0), (40, 0), (80, 40)]), Some(true));
        assert_eq!(bite(&[(0, 0), (10, 0), (20, 0), (30, 0)]), Some(true));
    }

    #[test]
    fn both_directions_must_have_held_packets_back() {
        let full = || Flow { held_back: true, ..flow_of(&[(25_000.0, 0.1)]) };
        let reading = flows(full(), full()).reading();
        assert_eq!((reading.asked, reading.measured), (Some(2.0), Some(2.0)));
        assert_eq!(reading.bit, Some(true));
        assert_eq!(flows(full(), flow_of(&[(100.0, 1.0)])).reading().bit, None);
        let fast = flow_of(&[(25_000_000.0, 1.0)]);
        assert_eq!(flows(full(), fast).reading().bit, Some(false));
    }
}
