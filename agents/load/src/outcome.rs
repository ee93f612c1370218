//! The outcome of a request.

/// The outcomes of `contracts/load-record.schema.json`; `experiments/load/client.py` says what each means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Complete in time, and what was asked for.
    Ok,
    /// No connection in time, or it ended before the answer was complete.
    AbortedConnection,
    /// No connection: refused, unreachable.
    ConnectionError,
    /// Incomplete at the time-out.
    TimeOut,
    /// Complete, and it says that the server failed.
    BadStatus,
    /// Complete, and not what was asked for; not of the protocol; too large.
    BadContent,
    /// Not sent, because too many were under way.
    Dropped,
    /// Never sent: a step of a session after one that failed.
    Unreached,
}

impl Outcome {
    /// Name in the records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::AbortedConnection => "aborted_connection",
            Self::ConnectionError => "connection_error",
            Self::TimeOut => "time_out",
            Self::BadStatus => "bad_status",
            Self::BadContent => "bad_content",
            Self::Dropped => "dropped",
            Self::Unreached => "unreached",
        }
    }
}
