//! `/etc/sparecraft/agent.toml`.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use ipnet::Ipv4Net;
use serde::Deserialize;

/// The agent's settings for its machine.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The experiment; a tag of every host sample.
    pub experiment: String,
    /// The machine's name.
    pub machine: String,
    /// The tier; empty where a machine belongs to none.
    #[serde(default)]
    pub tier: String,
    /// The role.
    pub role: String,
    /// Control address and port of the API.
    pub listen: SocketAddr,
    /// Address of the data interface.
    pub data_address: IpAddr,
    /// Networks of the fleet's data addresses; interference goes nowhere else.
    pub data_networks: Vec<Ipv4Net>,
    /// Nominal rate of the NIC; without it the interface is not shaped and cannot limp.
    pub nic_mbps: Option<f64>,
    /// Nominal rate of the disk in MB/s, for disk.limp; by default the machine's own throttle.
    pub disk_mbps: Option<f64>,
    /// Base address of the time-series database; without it there are no host metrics.
    pub influxdb: Option<String>,
    /// File with `USER:PASSWORD` for it; without it no login is sent.
    pub influxdb_login: Option<PathBuf>,
    /// Certificates.
    pub tls: mtls::Files,
    /// Undo journal, fingerprint baseline and the role's process record.
    #[serde(default = "state_dir")]
    pub state_dir: PathBuf,
    /// The folder for the agent's view of the cgroups.
    #[serde(default = "cgroup_dir")]
    pub cgroup_dir: PathBuf,
    /// Folder of `role.env` and `settings.env`.
    #[serde(default = "etc_dir")]
    pub etc_dir: PathBuf,
    /// Folder of `start.sh` and `ready.sh`.
    #[serde(default = "role_dir")]
    pub role_dir: PathBuf,
}

fn state_dir() -> PathBuf {
    "/var/lib/sparecraft".into()
}

fn cgroup_dir() -> PathBuf {
    "/run/sparecraft/cgroup".into()
}

fn etc_dir() -> PathBuf {
    "/etc/sparecraft".into()
}

fn role_dir() -> PathBuf {
    "/opt/sparecraft/role".into()
}

impl Config {
    /// Reads and checks the file; an error names the file, the key and the expectation.
    pub fn load(file: &Path) -> Result<Config> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read the agent's configuration {}", file.display()))?;
        Config::parse(&text).with_context(|| format!("in {}", file.display()))
    }

    fn parse(text: &str) -> Result<Config> {
        let config: Config = toml::from_str(text)?;
        for (key, rate) in [("nic_mbps", config.nic_mbps), ("disk_mbps", config.disk_mbps)] {
            if let Some(rate) = rate.filter(|rate| !rate.is_finite() || *rate < 0.01) {
                bail!("{key}: expected at least 0.01 (got {rate}). Leave it out for no limit.");
            }
        }
        if let Some(url) = config.influxdb.as_ref().filter(|url| !url.starts_with("http://")) {
            bail!("influxdb: expected an http:// address (got {url:?})");
        }
        for (key, value) in [("machine", &config.machine), ("experiment", &config.experiment)] {
            if value.is_empty() {
                bail!("{key}: expected a name (got none)");
            }
        }
        Ok(config)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub const EXAMPLE: &str = r#"
        experiment = "mediawiki-noisy"
        machine = "web-1"
        tier = "web"
        role = "mediawiki"
        listen = "198.19.1.11:7443"
        data_address = "198.18.1.11"
        data_networks = ["198.18.0.0/20"]
        nic_mbps = 200
        influxdb = "http://198.19.0.5:8086"
        [tls]
        ca = "/etc/sparecraft/tls/ca.pem"
        cert = "/etc/sparecraft/tls/cert.pem"
        key = "/etc/sparecraft/tls/key.pem"
    "#;

    /// The example with its state in `directory` and no role.
    pub fn example_in(directory: &Path) -> Config {
        let mut config = Config::parse(EXAMPLE).unwrap();
        config.state_dir = directory.join("state");
        config.role_dir = directory.join("role");
        config.etc_dir = directory.to_owned();
        config
    }

    #[test]
    fn the_contracts_example_is_read() {
        let config = Config::parse(EXAMPLE).unwrap();
        assert_eq!(config.nic_mbps, Some(200.0));
        assert_eq!(config.state_dir, Path::new("/var/lib/sparecraft"));
    }

    #[test]
    fn bad_values_are_refused_by_name() {
        for (from, to, word) in [
            ("nic_mbps = 200", "nic_mbps = -1", "nic_mbps"),
            ("nic_mbps = 200", "nic_mbs = 200", "nic_mbs"),
            ("http://198.19.0.5:8086", "198.19.0.5", "influxdb"),
            ("\"web-1\"", "\"\"", "machine"),
            ("198.18.1.11", "web-1", "data_address"),
            ("198.18.0.0/20", "198.18.0.0", "data_networks"),
        ] {
            let error = format!("{:#}", Config::parse(&EXAMPLE.replace(from, to)).unwrap_err());
            assert!(error.contains(word), "{to}: {error}");
        }
    }
}
