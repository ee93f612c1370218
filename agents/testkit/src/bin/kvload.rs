//! `kvload ADDRESS CONNECTIONS PIPELINE SECONDS KEYS BYTES`: `get`s to a memcached as fast as they are
//! answered, every reply checked to be of its key; one thread. Prints JSON. `make bench` uses it,
//! since Debian has no such client that pipelines.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

#[derive(Clone)]
struct Load {
    address: String,
    pipeline: usize,
    until: Instant,
    keys: usize,
    bytes: usize,
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, connections, pipeline, seconds, keys, bytes] = &words[..] else {
        bail!("expected ADDRESS CONNECTIONS PIPELINE SECONDS KEYS BYTES");
    };
    let seconds: u64 = seconds.parse().context("SECONDS")?;
    let connections: usize = connections.parse().context("CONNECTIONS")?;
    let mut load = Load {
        address: address.clone(),
        pipeline: pipeline.parse().context("PIPELINE")?,
        until: Instant::now(),
        keys: keys.parse().context("KEYS")?,
        bytes: bytes.parse().context("BYTES")?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        fill(&load).await?;
        let started = Instant::now();
        load.until = started + Duration::from_secs(seconds);
        let mut tasks = JoinSet::new();
        for number in 0..connections {
            tasks.spawn(ask(load.clone(), number * 7_919));
        }
        let mut latencies_us = Histogram::<u64>::new(3)?;
        while let Some(result) = tasks.join_next().await {
            latencies_us.add(result??)?;
        }
        let requests = latencies_us.len() * load.pipeline as u64;
        println!(
            "{{\"rps\": {:.1}, \"p50_us\": {}, \"p99_us\": {}, \"requests\": {requests}}}",
            requests as f64 / started.elapsed().as_secs_f64(),
            latencies_us.value_at_quantile(0.5),
            latencies_us.value_at_quantile(0.99),
        );
        Ok(())
    })
}

/// Sets every key to a value of so many bytes.
async fn fill(load: &Load) -> Result<()> {
    let mut stream = TcpStream::connect(&load.address).await?;
    let value = "x".repeat(load.bytes);
    for key in 0..load.keys {
        let set = format!("set key:{key} 0 0 {}\r\n{value}\r\n", load.bytes);
        stream.write_all(set.as_bytes()).await?;
        let mut reply = [0; 8];
        stream.read_exact(&mut reply).await?;
        ensure!(&reply == b"STORED\r\n", "expected STORED for key {key}");
    }
    Ok(())
}

/// One connection; the latency of each of its batches.
async fn ask(load: Load, mut key: usize) -> Result<Histogram<u64>> {
    let mut stream = TcpStream::connect(&load.address).await?;
    stream.set_nodelay(true)?;
    let mut latencies_us = Histogram::new(3)?;
    let (mut asking, mut expected) = (vec![], vec![]);
    let mut replies = vec![0; 256 * 1024];
    let value = "x".repeat(load.bytes);
    while Instant::now() < load.until {
        asking.clear();
        expected.clear();
        for _ in 0..load.pipeline {
            key = (key + 1) % load.keys;
            asking.extend_from_slice(format!("get key:{key}\r\n").as_bytes());
            let head = format!("VALUE key:{key} 0 {}\r\n", load.bytes);
            expected.extend_from_slice(head.as_bytes());
            expected.extend_from_slice(value.as_bytes());
            expected.extend_from_slice(b"\r\nEND\r\n");
        }
        let start = Instant::now();
        stream.write_all(&asking).await?;
        let mut at = 0;
        while at < expected.len() {
            let count = stream.read(&mut replies).await?;
            let part = expected.get(at..at + count);
            ensure!(count > 0, "the connection was closed");
            ensure!(part == Some(&replies[..count]), "a wrong reply");
            at += count;
        }
        latencies_us.record(u64::try_from(start.elapsed().as_micros())?)?;
    }
    Ok(latencies_us)
}
