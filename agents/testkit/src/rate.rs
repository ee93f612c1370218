//! A client of a fixed rate: requests are due at moments drawn ahead, whatever the replies do, and a
//! latency counts from the moment that its request was due (no coordinated omission).
//!
//! Each connection is a blocking thread that sleeps until its next request is due: a runtime's timer
//! of one millisecond would be coarser than what is measured. Arrivals are Poisson per connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::random::Random;
use crate::stream::find;

/// The requests to send.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Address to ask.
    pub address: SocketAddr,
    /// Path to ask for.
    pub path: String,
    /// Connections, each with its own arrivals.
    pub connections: usize,
    /// Rate of all connections together.
    pub rate_per_s: f64,
    /// Measured time, after `warm_up`.
    pub duration: Duration,
    /// Sent, but not measured.
    pub warm_up: Duration,
    /// Seed of the arrivals.
    pub seed: u64,
}

/// The results; times in microseconds.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Replies measured.
    pub count: u64,
    /// Replies of another status than 200.
    pub errors: u64,
    /// Replies per second.
    pub rate_per_s: f64,
    /// From the due time to the end of the reply.
    pub p50_us: f64,
    /// See `p50_us`.
    pub p90_us: f64,
    /// See `p50_us`.
    pub p99_us: f64,
    /// See `p50_us`; none with fewer than 10 samples beyond it.
    pub p999_us: Option<f64>,
    /// Lag of sending, which is part of the latencies.
    pub late_us_p99: f64,
}

struct Sample {
    latency_ns: Histogram<u64>,
    late_ns: Histogram<u64>,
    errors: u64,
}

impl Sample {
    fn new() -> Result<Self> {
        Ok(Self { latency_ns: Histogram::new(3)?, late_ns: Histogram::new(3)?, errors: 0 })
    }
}

/// Sends and measures.
pub fn run(plan: &Plan) -> Result<Report> {
    ensure!(plan.connections > 0 && plan.rate_per_s > 0.0, "nothing to send");
    let start = Instant::now() + Duration::from_millis(100);
    let threads: Vec<_> = (0..plan.connections)
        .map(|number| {
            let plan = plan.clone();
            std::thread::spawn(move || connection(&plan, number as u64, start))
        })
        .collect();
    let mut total = Sample::new()?;
    for thread in threads {
        let sample = thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
        total.latency_ns.add(&sample.latency_ns)?;
        total.late_ns.add(&sample.late_ns)?;
        total.errors += sample.errors;
    }
    let at = |q: f64| total.latency_ns.value_at_quantile(q) as f64 / 1e3;
    let count = total.latency_ns.len();
    Ok(Report {
        count,
        errors: total.errors,
        rate_per_s: count as f64 / plan.duration.as_secs_f64(),
        p50_us: at(0.5),
        p90_us: at(0.9),
        p99_us: at(0.99),
        p999_us: (count >= 10_000).then(|| at(0.999)),
        late_us_p99: total.late_ns.value_at_quantile(0.99) as f64 / 1e3,
    })
}

fn connection(plan: &Plan, number: u64, start: Instant) -> Result<Sample> {
    wake_on_time().context("cannot set the timer slack")?;
    let mut stream = TcpStream::connect(plan.address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let request = format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", plan.path);
    let gap_s = plan.connections as f64 / plan.rate_per_s;
    let mut random = Random::new(plan.seed.wrapping_add(number.wrapping_mul(7919)));
    let mut sample = Sample::new()?;
    let mut buffer = Vec::new();
    let measured_from = start + plan.warm_up;
    let end = measured_from + plan.duration;
    let mut due = start;
    loop {
        due += Duration::from_secs_f64(random.exponential(gap_s));
        if due >= end {
            return Ok(sample);
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let late = due.elapsed();
        stream.write_all(request.as_bytes())?;
        let is_good = read_reply(&mut stream, &mut buffer)?;
        let latency = due.elapsed();
        if due >= measured_from {
            sample.latency_ns.record(latency.as_nanos() as u64)?;
            sample.late_ns.record(late.as_nanos() as u64)?;
            sample.errors += u64::from(!is_good);
        }
    }
}

/// The kernel may otherwise wake a sleeping thread 50 microseconds late.
fn wake_on_time() -> Result<()> {
    // PID/task/TID; the file is there for a thread under its own number only.
    let myself = std::fs::read_link("/proc/thread-self")?;
    let thread = myself.file_name().context("no thread number")?;
    std::fs::write(Path::new("/proc").join(thread).join("timerslack_ns"), "1")?;
    Ok(())
}

fn read_reply(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<bool> {
    buffer.clear();
    let mut piece = [0; 4096];
    loop {
        if let Some(end) = find(buffer, b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
            let (_, rest) = head.split_once("content-length: ").context("no length")?;
            let length: usize = rest.lines().next().unwrap_or_default().parse()?;
            if buffer.len() >= end + 4 + length {
                return Ok(head.starts_with("http/1.1 200"));
            }
        }
        let read = stream.read(&mut piece)?;
        ensure!(read > 0, "the connection ended");
        buffer.extend_from_slice(&piece[..read]);
    }
}
