//! Host metrics against a real InfluxDB.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use base64::prelude::{Engine, BASE64_STANDARD};
use testkit::wait::REPLY_LIMIT;

use crate::support::{wait_for, wait_until, BUSY_ROLE, LOGIN};

const PORT: u16 = 18_642;

struct Influx {
    child: Child,
    _directory: tempfile::TempDir,
}

impl Influx {
    /// A server that asks for the user of these tests, on this host's address of their networks.
    fn start() -> Influx {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        let config = format!(
            "reporting-disabled = true\nbind-address = \"127.0.0.1:18643\"\n\
             [meta]\ndir = \"{}\"\n[data]\ndir = \"{}\"\nwal-dir = \"{}\"\n\
             [http]\nbind-address = \"198.18.242.129:{PORT}\"\nlog-enabled = false\nauth-enabled = true\n\
             [monitor]\nstore-enabled = false\n",
            at("meta"),
            at("data"),
            at("wal")
        );
        std::fs::write(directory.path().join("influxdb.conf"), config).unwrap();
        let child = Command::new("influxd")
            .args(["-config", &at("influxdb.conf")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let influx = Influx { child, _directory: directory };
        let (user, password) = LOGIN.split_once(':').unwrap();
        let first = format!("CREATE USER {user} WITH PASSWORD '{password}' WITH ALL PRIVILEGES");
        wait_for("InfluxDB", || query(&first, "").ok().filter(|text| text.contains("results")));
        influx
    }
}

impl Drop for Influx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// InfluxQL over plain HTTP; the whole answer as text.
fn query(influxql: &str, database: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("198.18.242.129", PORT))?;
    stream.set_read_timeout(Some(REPLY_LIMIT))?;
    let mut encoded = influxql.to_owned();
    for (plain, code) in [(" ", "%20"), ("<", "%3C"), (">", "%3E")] {
        encoded = encoded.replace(plain, code);
    }
    let path = format!("/query?db={database}&q={encoded}");
    let login = BASE64_STANDARD.encode(LOGIN);
    let head = format!("Authorization: Basic {login}\r\nContent-Length: 0");
    write!(stream, "POST {path} HTTP/1.0\r\n{head}\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn samples_taken_while_influxdb_is_away_arrive_when_it_comes() {
    if Command::new("influxd").arg("version").output().is_err() {
        eprintln!("skipped: needs influxd (Debian's influxdb) on this host");
        return;
    }
    let address =
        format!("influxdb = \"http://198.18.242.129:{PORT}\"\ninfluxdb_login = \"/test/login\"");
    let machine = machine_or_skip!(with BUSY_ROLE, &address);
    let count =
        |name: &str| machine.call("GET", "/v1/health", None).1["metrics"][name].as_u64().unwrap();
    wait_until("three samples in the buffer", || count("buffered") >= 3);
    assert_eq!(count("delivered"), 0);
    let _influx = Influx::start();
    // The database itself is still missing: that is waited for too.
    query("CREATE DATABASE sparecraft", "").unwrap();
    wait_until("delivery", || count("delivered") >= 4 && count("buffered") == 0);
    assert_eq!((count("dropped"), count("rejected")), (0, 0));
    let text = query("SELECT count(cpu_percent) FROM host", "sparecraft").unwrap();
    assert!(text.contains("\"count\""), "{text}");
    let tags = query("SHOW TAG KEYS FROM host", "sparecraft").unwrap();
    for tag in ["experiment", "machine", "tier", "role"] {
        assert!(tags.contains(&format!("[\"{tag}\"]")), "{tag} in {tags}");
    }
    let fields = query("SHOW FIELD KEYS FROM host", "sparecraft").unwrap();
    for field in [
        "cpu_percent",
        "cpu_cores",
        "memory_mb",
        "net_rx_mbps",
        "net_tx_mbps",
        "disk_read_mbps",
        "disk_write_mbps",
        "throttled_percent",
        "faults_active",
    ] {
        assert!(fields.contains(&format!("[\"{field}\"")), "{field} in {fields}");
    }
    // A role that spins is seen, never above its cap of 0.6 cores; when its CPU limps it is
    // throttled.
    let busy = "SELECT count(cpu_cores) FROM host WHERE cpu_cores > 0.02 AND cpu_cores < 0.75";
    assert!(query(busy, "sparecraft").unwrap().contains("\"count\""));
    if machine.can("cpu.limp") {
        machine.inject("cpu.limp", serde_json::json!({ "factor": 10 }));
        let throttled =
            "SELECT count(cpu_cores) FROM host WHERE throttled_percent > 0 AND faults_active = 1";
        let probe = || query(throttled, "sparecraft").unwrap().contains("\"count\"").then_some(());
        wait_for("a throttled sample", probe);
    }
}
