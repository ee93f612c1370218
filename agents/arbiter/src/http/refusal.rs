//! The arbiter's own error replies.

use policy::Refused;

/// An error reply of the arbiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Status code.
    pub status: u16,
    /// Reason in one line: `expected X (got Y)`.
    pub reason: &'static str,
}

impl Refusal {
    /// A refusal.
    pub const fn new(status: u16, reason: &'static str) -> Self {
        Self { status, reason }
    }

    /// The complete reply; without a body for HEAD.
    pub fn reply(&self, head_only: bool, close: bool) -> Vec<u8> {
        let text = format!("arbiter: {}\n", self.reason);
        let connection = if close { "Connection: close\r\n" } else { "" };
        format!(
            "HTTP/1.1 {} {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n{connection}\r\n{}",
            self.status,
            phrase(self.status),
            text.len(),
            if head_only { "" } else { &text },
        )
        .into_bytes()
    }
}

fn phrase(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        408 => "Request Timeout",
        421 => "Misdirected Request",
        417 => "Expectation Failed",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Error",
    }
}

/// The refusal if no server may be asked.
pub fn refusal_of(refused: Refused, tried_some: bool) -> Refusal {
    match refused {
        Refused::NoServer if tried_some => Refusal::new(502, "no server could be reached"),
        Refused::NoServer => Refusal::new(503, "no server is alive"),
        Refused::QueueFull => Refusal::new(503, "too many requests wait for a server"),
    }
}
