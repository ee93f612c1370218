//! Records of requests, and how they are written (`contracts/load-record.schema.json`).

use crate::answer::Lack;
use crate::outcome::Outcome;
use crate::plan::{Operation, Plan};

/// One request; times on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Record {
    /// The arrival, a place in the plan.
    pub place: u32,
    /// Outcome.
    pub outcome: Outcome,
    /// Status of HTTP; 0 for none.
    pub status: u16,
    /// Bytes of the content.
    pub bytes: u64,
    /// Start.
    pub sent_ns: i64,
    /// End; none for a dropped request.
    pub done_ns: Option<i64>,
    /// Intended start of a step that waited for another; otherwise the plan has it.
    pub intended_ns: Option<i64>,
    /// The fault of a complete answer.
    pub lack: Option<Lack>,
}

impl Record {
    /// A request without a reply.
    pub fn unsent(place: usize, outcome: Outcome, sent_ns: i64, done_ns: Option<i64>) -> Self {
        Self {
            place: place as u32, // a plan has less than 2^32
            outcome,
            status: 0,
            bytes: 0,
            sent_ns,
            done_ns,
            intended_ns: None,
            lack: None,
        }
    }
}

/// The run's t0 on the monotonic clock, and the block's start after it.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// Origin of the records' times.
    pub t0_ns: i64,
    /// Origin of the plan's offsets, less `t0_ns`.
    pub start_ns: i64,
}

impl Start {
    /// The block's start on the monotonic clock.
    pub fn origin_ns(self) -> i64 {
        self.t0_ns + self.start_ns
    }
}

/// Writes records of one plan as lines of JSON.
pub struct Lines {
    names: Vec<String>,
}

impl Lines {
    /// Names are escaped once.
    pub fn new(plan: &Plan) -> Self {
        let quoted = |name: &str| serde_json::Value::from(name).to_string();
        Self { names: plan.operations.iter().map(|operation| quoted(&operation.name)).collect() }
    }

    /// Appends the line of `record`.
    pub fn append(&self, line: &mut Vec<u8>, plan: &Plan, start: Start, record: &Record) {
        let place = record.place as usize;
        let planned_ns = start.start_ns + plan.offsets_ns[place];
        let intended_ns =
            record.intended_ns.map_or(planned_ns, |intended_ns| intended_ns - start.t0_ns);
        let sent_ns = record.sent_ns - start.t0_ns;
        let was_sent = record.outcome != Outcome::Unreached;
        line.extend(b"{\"phase\": \"");
        line.extend(plan.phase(place).as_bytes());
        line.extend(b"\", \"index\": ");
        integer(line, plan.index_of(place));
        line.extend(b", \"name\": ");
        line.extend(self.names[plan.operation_of[place] as usize].as_bytes());
        line.extend(b", \"intended_s\": ");
        seconds(line, intended_ns);
        line.extend(b", \"sent_s\": ");
        if was_sent {
            seconds(line, sent_ns);
        } else {
            line.extend(b"null");
        }
        match record.done_ns.map(|done_ns| done_ns - start.t0_ns) {
            Some(done_ns) => {
                line.extend(b", \"done_s\": ");
                seconds(line, done_ns);
                line.extend(b", \"latency_ms\": ");
                milliseconds(line, done_ns - intended_ns);
            }
            None => line.extend(b", \"done_s\": null, \"latency_ms\": null"),
        }
        line.extend(b", \"lag_ms\": ");
        if was_sent {
            milliseconds(line, sent_ns - intended_ns);
        } else {
            line.extend(b"null");
        }
        line.extend(b", \"outcome\": \"");
        line.extend(record.outcome.name().as_bytes());
        line.extend(b"\", \"status\": ");
        integer(line, u64::from(record.status));
        line.extend(b", \"bytes\": ");
        integer(line, record.bytes);
        if let Some(lack) = record.lack {
            line.extend(b", \"reason\": ");
            let description = describe(lack, record.status, plan.operation(place));
            line.extend(serde_json::Value::from(description).to_string().as_bytes());
        }
        line.extend(b"}\n");
    }
}

/// The fault of an answer, in words.
fn describe(lack: Lack, status: u16, operation: &Operation) -> String {
    match (lack, &operation.http) {
        (Lack::Status, _) => format!("status {status}"),
        (Lack::Check(number), _) => format!("check {number}"),
        (Lack::Value(place), Some(http)) => format!("no {}", http.take[place as usize].name),
        (Lack::Value(_), None) => String::new(),
        (Lack::Tls(reason), _) => reason.to_owned(),
    }
}

fn seconds(line: &mut Vec<u8>, ns: i64) {
    decimal(line, ns, 1_000_000);
}

fn milliseconds(line: &mut Vec<u8>, ns: i64) {
    decimal(line, ns, 1_000);
}

/// Microseconds, rounded, as a decimal number of `unit` microseconds.
fn decimal(line: &mut Vec<u8>, ns: i64, unit: u64) {
    if ns < 0 {
        line.push(b'-');
    }
    let us = (ns.unsigned_abs() + 500) / 1_000;
    integer(line, us / unit);
    line.push(b'.');
    let (mut rest, mut digit) = (us % unit, unit / 10);
    while digit > 0 {
        line.push(b'0' + (rest / digit) as u8);
        rest %= digit;
        digit /= 10;
    }
}

fn integer(line: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    line.extend(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formats(ns: i64) -> (String, String) {
        let (mut s, mut ms) = (vec![], vec![]);
        seconds(&mut s, ns);
        milliseconds(&mut ms, ns);
        (String::from_utf8(s).unwrap(), String::from_utf8(ms).unwrap())
    }

    #[test]
    fn times_are_decimal_numbers_rounded_to_microseconds() {
        for (ns, s, ms) in [
            (0, "0.000000", "0.000"),
            (1_499, "0.000001", "0.001"),
            (1_500, "0.000002", "0.002"),
            (12_345_678_901, "12.345679", "12345.679"),
            (-2_000_000, "-0.002000", "-2.000"),
        ] {
            assert_eq!(formats(ns), (s.to_owned(), ms.to_owned()));
        }
    }
}
