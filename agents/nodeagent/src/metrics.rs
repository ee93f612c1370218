//! Host metrics: the activity of the machine's cgroup and data interface since the last reading.

use std::path::Path;
use std::time::Duration;

use crate::config::Config;
use crate::influx::line;
use crate::machine::cgroup::Cgroups;
use crate::machine::cgroup_place::{read, value_of};
use crate::machine::network::traffic;

/// Counters since boot; absent where this kernel has none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counters {
    pub uptime: Duration,
    pub cpu_s: Option<f64>,
    /// Enforcement periods and throttled ones, of the machine's limit and of cpu.limp's.
    pub periods: [Option<(u64, u64)>; 2],
    pub net_rx_bytes: Option<u64>,
    pub net_tx_bytes: Option<u64>,
    pub disk_read_bytes: Option<u64>,
    pub disk_write_bytes: Option<u64>,
}

/// Present values.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Gauges {
    pub wall_ms: u64,
    pub memory_mb: Option<f64>,
    pub cap_cores: f64,
    pub faults_active: usize,
}

/// Reads the counters.
pub fn read_counters(cgroups: &Cgroups, interface: Option<&str>, uptime: Duration) -> Counters {
    let (net_rx_bytes, net_tx_bytes) = interface
        .and_then(traffic)
        .map_or((None, None), |counters| (Some(counters.rx_bytes), Some(counters.tx_bytes)));
    let disk =
        cgroups.disk.as_ref().ok().and_then(|disk| disk_bytes(cgroups.unified, &disk.machine));
    let cpu = cgroups.cpu.as_ref().ok();
    let periods = |directory: &Path| throttling(&read(&directory.join("cpu.stat")).ok()?);
    Counters {
        uptime,
        cpu_s: cgroups.cpu_usage.as_ref().and_then(|directory| cpu_s(cgroups.unified, directory)),
        periods: [cpu.and_then(|c| periods(&c.machine)), cpu.and_then(|c| periods(&c.own))],
        net_rx_bytes,
        net_tx_bytes,
        disk_read_bytes: disk.map(|(read, _)| read),
        disk_write_bytes: disk.map(|(_, write)| write),
    }
}

/// Memory in use without the page cache that can go at once.
pub fn memory_mb(cgroups: &Cgroups) -> Option<f64> {
    let directory = cgroups.memory.as_ref()?;
    let (usage, inactive) = if cgroups.unified {
        ("memory.current", "inactive_file")
    } else {
        ("memory.usage_in_bytes", "total_inactive_file")
    };
    let usage: f64 = read(&directory.join(usage)).ok()?.trim().parse().ok()?;
    let statistics = read(&directory.join("memory.stat")).ok()?;
    Some((usage - number_of(&statistics, inactive).unwrap_or(0) as f64).max(0.0) / 1e6)
}

/// The `host` point of the interval between two looks.
pub fn host_line(config: &Config, before: &Counters, after: &Counters, gauges: &Gauges) -> String {
    let elapsed_s = (after.uptime.saturating_sub(before.uptime)).as_secs_f64().max(1e-3);
    let rate = |get: fn(&Counters) -> Option<u64>| {
        Some(get(after)?.saturating_sub(get(before)?) as f64 / elapsed_s)
    };
    let cores = after.cpu_s.zip(before.cpu_s).map(|(after, before)| (after - before) / elapsed_s);
    let throttled =
        before.periods.iter().zip(&after.periods).filter_map(|(b, a)| share((*b)?, (*a)?));
    let megabits = |get: fn(&Counters) -> Option<u64>| rate(get).map(|bytes| bytes * 8.0 / 1e6);
    let megabytes = |get: fn(&Counters) -> Option<u64>| rate(get).map(|bytes| bytes / 1e6);
    let figures = [
        ("cpu_percent", cores.map(|cores| 100.0 * cores / gauges.cap_cores)),
        ("cpu_cores", cores),
        ("memory_mb", gauges.memory_mb),
        ("net_rx_mbps", megabits(|look| look.net_rx_bytes)),
        ("net_tx_mbps", megabits(|look| look.net_tx_bytes)),
        ("disk_read_mbps", megabytes(|look| look.disk_read_bytes)),
        ("disk_write_mbps", megabytes(|look| look.disk_write_bytes)),
        ("throttled_percent", throttled.reduce(f64::max)),
    ];
    let tags = [
        ("experiment", config.experiment.as_str()),
        ("machine", &config.machine),
        ("role", &config.role),
        ("tier", &config.tier),
    ];
    let count = ("faults_active", gauges.faults_active);
    line("host", &tags, &figures, count, gauges.wall_ms)
}

fn share(before: (u64, u64), after: (u64, u64)) -> Option<f64> {
    let periods = after.0.checked_sub(before.0)?;
    let throttled = after.1.checked_sub(before.1)?;
    Some(if periods == 0 { 0.0 } else { 100.0 * throttled as f64 / periods as f64 })
}

/// CPU seconds of a cgroup.
pub fn cpu_s(unified: bool, directory: &Path) -> Option<f64> {
    if unified {
        let text = read(&directory.join("cpu.stat")).ok()?;
        return Some(number_of(&text, "usage_usec")? as f64 / 1e6);
    }
    let nanoseconds: f64 = read(&directory.join("cpuacct.usage")).ok()?.trim().parse().ok()?;
    Some(nanoseconds / 1e9)
}

/// Enforcement periods, and those that were throttled, of a `cpu.stat`.
pub fn throttling(statistics: &str) -> Option<(u64, u64)> {
    Some((number_of(statistics, "nr_periods")?, number_of(statistics, "nr_throttled")?))
}

fn number_of(text: &str, key: &str) -> Option<u64> {
    value_of(text, key)?.trim().parse().ok()
}

/// Bytes read and written, over all devices, children included.
pub fn disk_bytes(unified: bool, directory: &Path) -> Option<(u64, u64)> {
    if unified {
        let text = read(&directory.join("io.stat")).ok()?;
        let sum = |key: &str| {
            text.split_whitespace()
                .filter_map(|item| item.strip_prefix(key)?.parse::<u64>().ok())
                .sum()
        };
        return Some((sum("rbytes="), sum("wbytes=")));
    }
    let text = read(&directory.join("blkio.throttle.io_service_bytes_recursive")).ok()?;
    let sum = |kind: &str| {
        let of_kind = |line: &str| {
            let mut words = line.split(' ').skip(1);
            (words.next() == Some(kind)).then(|| words.next()?.parse::<u64>().ok())?
        };
        text.lines().filter_map(of_kind).sum()
    };
    Some((sum("Read"), sum("Write")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::example_in;

    #[test]
    fn rates_are_over_the_time_between_the_looks_and_cpu_is_of_the_cap() {
        let config = example_in(Path::new("/nowhere"));
        let at = |seconds, cpu_s, bytes, periods| Counters {
            uptime: Duration::from_secs(seconds),
            cpu_s: Some(cpu_s),
            periods: [Some(periods), None],
            net_rx_bytes: Some(bytes),
            ..Counters::default()
        };
        let gauges = Gauges { wall_ms: 5, memory_mb: Some(64.0), cap_cores: 0.6, faults_active: 1 };
        let before = at(10, 1.0, 0, (100, 0));
        let text = host_line(&config, &before, &at(12, 1.6, 1_000_000, (300, 50)), &gauges);
        assert_eq!(
            text,
            "host,experiment=mediawiki-noisy,machine=web-1,role=mediawiki,tier=web \
             cpu_percent=50.0000,cpu_cores=0.3000,memory_mb=64.0000,net_rx_mbps=4.0000,\
             throttled_percent=25.0000,faults_active=1i 5000000"
        );
    }
}
