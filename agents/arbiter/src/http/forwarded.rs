//! Who asked: `Forwarded` (RFC 7239) and the `X-Forwarded-For` and `-Proto` that came before it.

use serde::Deserialize;

/// Whether servers are told, and what becomes of what the client said itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Told {
    /// Nothing is added, and nothing taken away.
    #[default]
    Off,
    /// What the client said is taken away: anybody could say so.
    Replace,
    /// What the client said stays before it: another proxy is the client.
    Append,
}

/// The fields of one client's requests.
pub struct Forwarded {
    lines: Vec<u8>,
    replaces: bool,
}

impl Forwarded {
    /// Of a client with this address, who came by TLS or not; none where servers are not told.
    pub fn new(told: Told, address: &str, is_tls: bool) -> Option<Self> {
        let scheme = if is_tls { "https" } else { "http" };
        let node = if address.contains(':') {
            format!("\"[{address}]\"")
        } else {
            address.to_owned()
        };
        let lines = format!(
            "Forwarded: for={node};proto={scheme}\r\nX-Forwarded-For: {address}\r\n\
             X-Forwarded-Proto: {scheme}\r\n\r\n"
        );
        (told != Told::Off).then(|| Self {
            lines: lines.into_bytes(),
            replaces: told == Told::Replace,
        })
    }

    /// Adds them to a request's head.
    pub fn add_to(&self, head: &mut Vec<u8>) {
        // Up to the empty line.
        head.truncate(head.len().saturating_sub(2));
        if self.replaces {
            let kept = head.split_inclusive(|&byte| byte == b'\n');
            *head = kept
                .filter(|line| !is_ours(line))
                .flatten()
                .copied()
                .collect();
        }
        head.extend_from_slice(&self.lines);
    }
}

fn is_ours(line: &[u8]) -> bool {
    const OURS: [&[u8]; 3] = [b"forwarded", b"x-forwarded-for", b"x-forwarded-proto"];
    let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
    OURS.iter().any(|word| name.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"GET / HTTP/1.1\r\nx-forwarded-for: 9.9.9.9\r\nA: b\r\n\r\n";

    fn told(told: Told, address: &str) -> String {
        let mut head = HEAD.to_vec();
        if let Some(forwarded) = Forwarded::new(told, address, false) {
            forwarded.add_to(&mut head);
        }
        String::from_utf8(head).unwrap()
    }

    #[test]
    fn what_a_client_says_of_itself_is_taken_away_or_goes_before() {
        let ours = "Forwarded: for=1.2.3.4;proto=http\r\nX-Forwarded-For: 1.2.3.4\r\n\
                    X-Forwarded-Proto: http\r\n\r\n";
        assert_eq!(told(Told::Off, "1.2.3.4").as_bytes(), HEAD);
        let replaced = format!("GET / HTTP/1.1\r\nA: b\r\n{ours}");
        assert_eq!(told(Told::Replace, "1.2.3.4"), replaced);
        let appended = format!("GET / HTTP/1.1\r\nx-forwarded-for: 9.9.9.9\r\nA: b\r\n{ours}");
        assert_eq!(told(Told::Append, "1.2.3.4"), appended);
    }

    #[test]
    fn an_address_with_colons_is_quoted() {
        let text = told(Told::Append, "::1");
        assert!(
            text.contains("Forwarded: for=\"[::1]\";proto=http\r\n"),
            "{text}"
        );
        assert!(text.contains("X-Forwarded-For: ::1\r\n"), "{text}");
    }
}
