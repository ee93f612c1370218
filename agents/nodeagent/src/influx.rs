//! Host samples to InfluxDB by line protocol. While it is away they wait in a bounded buffer and
//! are delivered later; what the buffer cannot hold is dropped, oldest first, and counted. Samples are
//! taken while a batch is under way: a database that hangs is one that is away.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use base64::prelude::{Engine, BASE64_STANDARD};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{HeaderValue, AUTHORIZATION};
use hyper::{Request, StatusCode};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use wire::agent::MetricsDelivery;

use crate::config::Config;

/// Ten minutes of one sample per second, beside those under way.
const BUFFERED_MAX: usize = 600;
const TIME_LIMIT: Duration = Duration::from_secs(2);
const DATABASE: &str = "sparecraft";

/// Waiting lines, and counts of the others.
#[derive(Debug, Default)]
pub struct Buffer {
    lines: VecDeque<String>,
    /// Number of the oldest lines that are being sent.
    sending: usize,
    counts: MetricsDelivery,
}

/// Result of sending a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Taken.
    Delivered,
    /// Refused as malformed, so it is not sent again.
    Rejected,
    /// The database is unreachable or not ready.
    Away,
}

impl Buffer {
    /// Adds a line; drops the oldest if the buffer is full.
    pub fn push(&mut self, line: String) {
        self.lines.push_back(line);
        self.drop_oldest();
    }

    /// Takes all waiting lines as one body; it is under way until it is settled.
    pub fn batch(&mut self) -> String {
        self.sending = self.lines.len();
        let lines: Vec<&str> = self.lines.iter().map(String::as_str).collect();
        lines.join("\n")
    }

    /// Settles the last batch.
    pub fn settle(&mut self, outcome: Outcome) {
        let count = std::mem::take(&mut self.sending);
        match outcome {
            Outcome::Away => return self.drop_oldest(),
            Outcome::Delivered => self.counts.delivered += count as u64,
            Outcome::Rejected => self.counts.rejected += count as u64,
        }
        self.lines.drain(..count);
    }

    /// Drops the oldest line that is not under way.
    fn drop_oldest(&mut self) {
        let first = self.sending;
        let beyond = self.lines.len().saturating_sub(first + BUFFERED_MAX);
        self.lines.drain(first..first + beyond);
        self.counts.dropped += beyond as u64;
    }

    /// The counts so far.
    pub fn counts(&self) -> MetricsDelivery {
        MetricsDelivery { buffered: self.lines.len() as u64, ..self.counts }
    }
}

/// Posts batches to one database.
pub struct Writer {
    client: Client<HttpConnector, Full<Bytes>>,
    address: String,
    authorization: Option<HeaderValue>,
}

impl Writer {
    /// A writer for the machine's database; `None` where it has none.
    pub fn of(config: &Config) -> Result<Option<Writer>> {
        let Some(base) = &config.influxdb else {
            return Ok(None);
        };
        let authorization = config.influxdb_login.as_deref().map(basic).transpose()?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let address = format!("{}/write?db={DATABASE}&precision=ns", base.trim_end_matches('/'));
        Ok(Some(Writer { client, address, authorization }))
    }

    /// Sends one batch, within a bounded time.
    pub async fn send(&self, body: String) -> Result<Outcome> {
        let request = Request::post(&self.address).body(Full::new(Bytes::from(body)));
        let mut request = request.with_context(|| format!("`{}` is no address", self.address))?;
        if let Some(value) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, value.clone());
        }
        let answer = tokio::time::timeout(TIME_LIMIT, self.client.request(request));
        Ok(match answer.await {
            Ok(Ok(response)) => outcome(response.status()),
            Ok(Err(_)) | Err(_) => Outcome::Away,
        })
    }
}

/// `USER:PASSWORD` of a file by HTTP's Basic scheme, RFC 7617.
fn basic(file: &Path) -> Result<HeaderValue> {
    let login = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the database's login {}", file.display()))?;
    let mut value =
        HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(login.trim_end())))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Result by status: 404 is a database that is not created yet, 401 and 403 one that is not open
/// yet.
fn outcome(status: StatusCode) -> Outcome {
    match status {
        status if status.is_success() => Outcome::Delivered,
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE => Outcome::Rejected,
        _ => Outcome::Away,
    }
}

/// Formats one line of the line protocol, without empty tags and unknown figures.
pub fn line(
    measurement: &str,
    tags: &[(&str, &str)],
    figures: &[(&str, Option<f64>)],
    (count_name, count): (&str, usize),
    wall_ms: u64,
) -> String {
    let mut text = measurement.to_owned();
    for (name, value) in tags.iter().filter(|(_, value)| !value.is_empty()) {
        text += &format!(",{name}={}", escape(value));
    }
    text += " ";
    for (name, value) in figures {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            text += &format!("{name}={value:.4},");
        }
    }
    let wall_ns = u128::from(wall_ms) * 1_000_000;
    format!("{text}{count_name}={count}i {wall_ns}")
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=").replace(' ', "\\ ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_buffer_drops_the_oldest_and_counts_it() {
        let mut buffer = Buffer::default();
        for number in 0..BUFFERED_MAX + 3 {
            buffer.push(number.to_string());
        }
        assert!(buffer.batch().starts_with("3\n4\n"));
        assert_eq!((buffer.counts().dropped, buffer.counts().buffered), (3, 600));
    }

    #[test]
    fn nothing_is_lost_while_the_database_is_away() {
        let mut buffer = Buffer::default();
        buffer.push("a".into());
        buffer.batch();
        buffer.settle(Outcome::Away);
        buffer.push("b".into());
        assert_eq!(buffer.batch(), "a\nb");
        buffer.settle(Outcome::Delivered);
        let counts = buffer.counts();
        assert_eq!((counts.delivered, counts.buffered, counts.dropped), (2, 0, 0));
    }

    #[test]
    fn what_comes_while_a_full_batch_is_under_way_costs_no_line_that_is_delivered() {
        let under_way = || {
            let mut buffer = Buffer::default();
            (0..BUFFERED_MAX).for_each(|number| buffer.push(number.to_string()));
            buffer.batch();
            buffer.push("new".into());
            buffer
        };
        let counts = |mut buffer: Buffer, outcome| {
            buffer.settle(outcome);
            let counts = buffer.counts();
            (counts.delivered, counts.dropped, counts.buffered)
        };
        assert_eq!(counts(under_way(), Outcome::Delivered), (600, 0, 1));
        assert_eq!(counts(under_way(), Outcome::Away), (0, 1, 600));
    }

    #[test]
    fn a_login_is_sent_by_the_basic_scheme_and_shown_nowhere() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "Aladdin:open sesame").unwrap(); // the example of RFC 7617
        let value = basic(file.path()).unwrap();
        assert_eq!(value, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(format!("{value:?}"), "Sensitive");
    }

    #[test]
    fn a_line_leaves_out_what_is_empty_or_unknown_and_escapes_the_rest() {
        let tags = [("machine", "web 1,a=b"), ("tier", "")];
        let figures = [("cpu", Some(1.5)), ("x", None), ("y", Some(f64::NAN))];
        assert_eq!(
            line("host", &tags, &figures, ("n", 2), 7),
            "host,machine=web\\ 1\\,a\\=b cpu=1.5000,n=2i 7000000"
        );
    }

    #[test]
    fn a_database_that_is_not_made_yet_is_waited_for() {
        assert_eq!(outcome(StatusCode::NOT_FOUND), Outcome::Away);
        assert_eq!(outcome(StatusCode::SERVICE_UNAVAILABLE), Outcome::Away);
        assert_eq!(outcome(StatusCode::BAD_REQUEST), Outcome::Rejected);
        assert_eq!(outcome(StatusCode::NO_CONTENT), Outcome::Delivered);
    }
}
