//! Current clients of Python, Node, Go and Java beside the soak's own: a process each, which sends checked
//! requests to an arbiter and writes a line for each reply: `right`, `error CAUSE` or `wrong DESCRIPTION`.
//!
//! A client ends with its standard input, so none is left behind, however the soak ends.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;
use tokio::time::{timeout, timeout_at, Instant};

use super::Plan;
use crate::load::{Counts, Tally, PATIENCE};

/// Languages and their clients of Redis.
pub const REDIS: [(&str, &str); 6] = [
    ("python", "redis-py"),
    ("node", "node-redis"),
    ("node", "ioredis"),
    ("go", "go-redis"),
    ("java", "Jedis"),
    ("java", "Lettuce"),
];
/// Languages and their clients of MySQL.
pub const MYSQL: [(&str, &str); 4] =
    [("python", "PyMySQL"), ("node", "mysql2"), ("go", "go-sql-driver"), ("java", "Connector/J")];
/// A client has a right reply at least so often: some server is up for most of each minute.
const SILENT_MOST: Duration = Duration::from_secs(60);
/// Errors by the beginning of their causes that dying and hanging servers explain.
const EXPLAINED: [&str; 10] = [
    "connection: ",
    "arbiter: ", // of Redis
    "LOADING ",
    "MASTERDOWN ",
    "MySQL error 1040", // no server came free in time
    "MySQL error 1053", // the transaction's server is lost
    "MySQL error 1158", // no server is alive
    "MySQL error 1290", // no primary
    "MySQL error 1317", // the statement took too long
    "MySQL error 1969", // the same, or no server answered in time
];

/// The clients of one arbiter.
pub struct Clients(Vec<Client>);

struct Client {
    language: &'static str,
    name: &'static str,
    tally: Arc<Tally>,
    child: Child,
    input: ChildStdin,
    reader: JoinHandle<()>,
}

impl Clients {
    /// Starts clients of the folder that `ci/clients` fills; none without one. `beside` is the tally of
    /// the soak's own clients of this arbiter: it knows of outages, and of the end.
    ///
    /// # Errors
    /// When one cannot be started.
    pub fn start(
        plan: &Plan,
        clients: &[(&'static str, &'static str)],
        address: SocketAddr,
        beside: &Arc<Tally>,
    ) -> Result<Self> {
        let Some(folder) = &plan.clients else {
            return Ok(Self(Vec::new()));
        };
        let start = |&(language, name)| Client::start(folder, (language, name), address, beside);
        clients.iter().map(start).collect::<Result<_>>().map(Self)
    }

    /// Makes sure that all go on.
    ///
    /// # Errors
    /// When one has ended: its language is not there, or it has a defect.
    pub fn ensure_running(&mut self) -> Result<()> {
        for Client { language, name, child, .. } in &mut self.0 {
            if let Some(status) = child.try_wait()? {
                bail!("{name}: it ended before the soak ({status}). Is {language} installed?");
            }
        }
        Ok(())
    }

    /// Ends all, which the tally beside has to know, and returns their results.
    ///
    /// # Errors
    /// When one does not end well.
    pub async fn end(self) -> Result<BTreeMap<&'static str, Counts>> {
        let mut counts = BTreeMap::new();
        for Client { name, tally, mut child, input, reader, .. } in self.0 {
            drop(input);
            let status = timeout(PATIENCE, child.wait()).await;
            let status =
                status.with_context(|| format!("{name}: still there 20 s after its end"))??;
            ensure!(status.success(), "{name}: ended with {status}");
            reader.await?;
            counts.insert(name, tally.counts());
        }
        Ok(counts)
    }
}

impl Client {
    fn start(
        folder: &Path,
        (language, name): (&'static str, &'static str),
        address: SocketAddr,
        beside: &Arc<Tally>,
    ) -> Result<Self> {
        let program = folder.join(language).join("soak");
        let mut command = Command::new(&program);
        command.args([name, &address.port().to_string()]).kill_on_drop(true);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.with_context(|| {
            format!("{}: cannot start. Call ci/clients {language}.", program.display())
        })?;
        let input = child.stdin.take().context("no stdin")?;
        let lines = BufReader::new(child.stdout.take().context("no stdout")?);
        let tally = Arc::new(Tally::default());
        let (counted, beside) = (Arc::clone(&tally), Arc::clone(beside));
        let reader = tokio::spawn(async move { read(lines, &counted, &beside).await });
        Ok(Self { language, name, tally, child, input, reader })
    }
}

/// Counts what a client writes until it ends; what it writes after the soak's end is all the same.
async fn read(lines: impl AsyncBufRead + Unpin, tally: &Tally, beside: &Tally) {
    let mut lines = lines.lines();
    let mut silent_at = Instant::now() + SILENT_MOST;
    loop {
        let Ok(line) = timeout_at(silent_at, lines.next_line()).await else {
            if beside.goes_on() {
                tally.wrong(format!("no right reply within {SILENT_MOST:?}"));
            }
            silent_at = Instant::now() + SILENT_MOST;
            continue;
        };
        let Ok(Some(line)) = line else { return };
        if !beside.goes_on() {
            continue;
        }
        // The arbiter's error during an outage is one of the outage here, too.
        tally.outage.store(beside.outage.load(Relaxed), Relaxed);
        if line == "right" {
            tally.checked.fetch_add(1, Relaxed);
            silent_at = Instant::now() + SILENT_MOST;
        } else {
            match line.strip_prefix("error ").and_then(explained) {
                Some(cause) => tally.error(cause.to_owned()),
                None => tally.wrong(line),
            }
        }
    }
}

/// The cause of an error, without Redis' first word, if the faults explain it.
fn explained(cause: &str) -> Option<&str> {
    let cause = cause.strip_prefix("ERR ").unwrap_or(cause);
    EXPLAINED.iter().any(|start| cause.starts_with(start)).then_some(cause)
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::soak::runtime;

    fn counts(lines: &str) -> Counts {
        let tally = Tally::default();
        runtime().unwrap().block_on(read(lines.as_bytes(), &tally, &Tally::default()));
        tally.counts()
    }

    #[test]
    fn an_error_that_no_fault_explains_is_wrong() {
        let counts = counts(
            "right\nerror ERR arbiter: no server\nerror arbiter: no server\nright\n\
             error MySQL error 1290\nerror MySQL error 1064\nerror ERR unknown command\n\
             error Packet sequence number wrong\nwrong GET: 'another'\n",
        );
        assert_eq!(counts.checked, 2);
        let errors = [("MySQL error 1290".to_owned(), 1), ("arbiter: no server".to_owned(), 2)];
        assert_eq!(counts.errors_by_cause, errors.into());
        assert_eq!(counts.wrong, 4, "{:?}", counts.described);
    }

    #[test]
    fn a_minute_without_a_right_reply_is_wrong() {
        let (tally, beside) = (Tally::default(), Tally::default());
        runtime().unwrap().block_on(async {
            tokio::time::pause();
            let (client, lines) = tokio::io::duplex(64);
            let end = async {
                sleep(SILENT_MOST * 2 - Duration::from_secs(1)).await;
                drop(client);
            };
            tokio::join!(read(BufReader::new(lines), &tally, &beside), end);
        });
        assert_eq!(tally.counts().wrong, 1);
    }

    #[test]
    fn errors_of_an_outage_are_counted_apart() {
        let (tally, beside) = (Tally::default(), Tally::default());
        beside.outage.store(true, Relaxed);
        runtime().unwrap().block_on(read(&b"error MySQL error 1290\n"[..], &tally, &beside));
        assert_eq!(tally.counts().errors_in_outages_by_cause.len(), 1);
        assert_eq!(tally.counts().spoilt(), 0);
    }
}
