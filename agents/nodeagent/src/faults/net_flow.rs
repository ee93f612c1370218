//! How fast a limping card is, in both directions: what passes its two token buckets.
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

use super::dose::{Probe, Reading};
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
/// Packets that come to the card, of which some must have been led to the bucket.
const LED_OF: u64 = 20;

/// Both directions of one card.
pub struct Flows {
    source: IpAddr,
    bucket: TokenBucket,
    out: Flow,
    in_: Flow,
    /// Packets that had come to the card and to its `ifb` device when it was filled.
    arrived: Option<(Duration, u64, u64)>,
    unled: bool,
    samples: u64,
    held: Duration,
}

/// One bucket.
struct Flow {
    device: String,
    passed: fn(&Traffic) -> u64,
    last: Option<(Duration, u64)>,
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
            out: Flow::new(interface, |seen| seen.tx_bytes),
            // What leaves an ifb device's queue counts as received by it.
            in_: Flow::new(ingress, |seen| seen.rx_bytes),
            arrived: None,
            unled: false,
            samples: 0,
            held: Duration::ZERO,
        }
    }

    /// Whether packets come to the card and none to its bucket, where a few could have passed.
    fn look_at_way_in(&mut self, held: Duration) -> Result<()> {
        let card = traffic(&self.out.device).context("the data interface is gone")?;
        let led = traffic(&self.in_.device).context("the ifb device is gone")?;
        let now = (held, card.rx_packets, led.rx_packets);
        let (since, came, passed) = *self.arrived.get_or_insert(now);
        let frames =
            self.bucket.rate_bit_per_s as f64 * (held - since).as_secs_f64() / (8.0 * FRAME_BYTES);
        self.unled = card.rx_packets >= came + LED_OF && led.rx_packets == passed && frames > 2.0;
        Ok(())
    }
}

impl Probe for Flows {
    fn look(&mut self, held: Duration) -> Result<()> {
        let began = Instant::now();
        for flow in [&mut self.out, &mut self.in_] {
            if self.samples == 0 {
                flow.fill(self.source, &self.bucket)?;
            }
            flow.look(held + began.elapsed(), &self.bucket)?;
        }
        self.held = held + began.elapsed();
        self.look_at_way_in(self.held)?;
        self.samples += 1;
        let led = !self.unled;
        ensure!(
            led,
            "packets come to the card, and none to the bucket for them"
        );
        Ok(())
    }

    /// It bit where both buckets held packets back, and neither ever let more pass than it may.
    fn reading(&self) -> Reading {
        let flows = [&self.out, &self.in_];
        let broken = self.unled || flows.iter().any(|flow| flow.too_fast);
        let held_back = flows.iter().all(|flow| flow.held_back);
        let fastest = flows.iter().filter_map(|flow| flow.fastest_bit_per_s);
        Reading {
            asked: Some(self.bucket.rate_bit_per_s as f64 / 1e6),
            measured: fastest.reduce(f64::max).map(|rate| rate / 1e6),
            bit: (broken || held_back).then_some(!broken),
            samples: self.samples,
            seconds: self.held.as_secs_f64(),
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
        let seen = traffic(&self.device).with_context(|| format!("{} is gone", self.device))?;
        Ok((self.passed)(&seen))
    }

    /// What passed between two looks. A bucket lets pass its rate and, at once, what it holds.
    fn add(&mut self, bytes: f64, seconds: f64, bucket: &TokenBucket) {
        let rate = bucket.rate_bit_per_s as f64 / 8.0;
        let at_once = 2.0 * (bucket.burst_bytes as f64 + FRAME_BYTES);
        self.too_fast |= bytes > 1.1 * rate * seconds + at_once;
        let seen = 8.0 * bytes / seconds.max(1e-6);
        self.fastest_bit_per_s = Some(self.fastest_bit_per_s.map_or(seen, |most| most.max(seen)));
    }

    /// Fills the bucket and measures from when what it held at once is gone.
    fn fill(&mut self, source: IpAddr, bucket: &TokenBucket) -> Result<()> {
        self.overlimits = overlimits(&self.device)?;
        let socket = socket_at(source, &self.device)?;
        let until = Instant::now() + FILL_LIMIT;
        let begin = self.count()?;
        let rate = bucket.rate_bit_per_s as f64 / 8.0;
        let goal = (FILL_S * rate).clamp(FILL_BYTES_MIN, FILL_BYTES_MAX) as u64;
        let emptied = self.send(&socket, begin + bucket.burst_bytes, until)?;
        let began = Instant::now();
        let ended = self.send(&socket, emptied + goal, until)?;
        let seconds = began.elapsed().as_secs_f64();
        self.look_at_queue()?;
        if ended > emptied || self.held_back {
            self.add((ended - emptied) as f64, seconds, bucket);
        }
        Ok(())
    }

    /// Sends until so much has passed or it is late; what has passed.
    fn send(&self, socket: &UdpSocket, count: u64, until: Instant) -> Result<u64> {
        loop {
            let now = self.count()?;
            if now >= count || Instant::now() >= until {
                return Ok(now);
            }
            match socket.send_to(&[0; PAYLOAD_BYTES], (Ipv4Addr::BROADCAST, DISCARD)) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => {
                    return Err(error).with_context(|| format!("cannot send over {}", self.device))
                }
                _ => {}
            }
        }
    }

    fn look(&mut self, held: Duration, bucket: &TokenBucket) -> Result<()> {
        let count = self.count()?;
        if let Some((before, count_before)) = self.last {
            let seconds = held.saturating_sub(before).as_secs_f64();
            self.add(count.saturating_sub(count_before) as f64, seconds, bucket);
        }
        self.last = Some((held, count));
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

/// How often the bucket at a device's root has made packets wait.
fn overlimits(device: &str) -> Result<u64> {
    let text = run("tc", &["-s", "-j", "qdisc", "show", "dev", device])?;
    let qdiscs: Vec<Value> = serde_json::from_str(&text).context("`tc -s -j qdisc`")?;
    let bucket = qdiscs.iter().find(|qdisc| qdisc["kind"] == "tbf");
    bucket
        .and_then(|qdisc| qdisc["overlimits"].as_u64())
        .with_context(|| format!("{device} has no token bucket"))
}
