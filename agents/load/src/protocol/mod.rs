//! The bytes of requests, and the ends of replies. A reader sees all bytes of a reply that have
//! come so far, again and again until it is whole, and goes on where it was.

mod http;
mod memcached;
pub(crate) mod mysql;
mod redis;
mod text;

use memchr::memmem::Finder;

use crate::answer::Answer;
use crate::operation::HttpRequest;
use crate::outcome::Outcome;

/// Largest reply.
pub const REPLY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Longest head or line.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Protocol of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http,
    /// memcached's text protocol.
    Memcached,
    /// MySQL's and MariaDB's.
    Mysql,
    /// Redis, RESP2.
    Redis,
}

/// All of them, with the scheme of their URLs and their port.
const ALL: [(Protocol, &str, u16); 4] = [
    (Protocol::Http, "http", 80),
    (Protocol::Memcached, "memcached", 11211),
    (Protocol::Mysql, "mysql", 3306),
    (Protocol::Redis, "redis", 6379),
];

impl Protocol {
    /// The protocol of a URL's scheme.
    pub fn of_scheme(scheme: &str) -> Option<Self> {
        let entry = ALL.iter().find(|(_, name, _)| *name == scheme);
        entry.map(|(protocol, _, _)| *protocol)
    }

    /// All of their schemes.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|(_, name, _)| *name)
    }

    /// Scheme in URLs.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Default port.
    pub fn default_port(self) -> u16 {
        self.row().2
    }

    fn row(self) -> &'static (Self, &'static str, u16) {
        // In the order of the enum.
        &ALL[self as usize]
    }

    /// The form of a request in a plan.
    pub fn form(self) -> &'static str {
        match self {
            Self::Http => "a path",
            Self::Memcached => "`COMMAND KEY` or `COMMAND KEY SIZE`",
            Self::Mysql => "a statement",
            Self::Redis => "`COMMAND KEY` or `COMMAND KEY FIELD SIZE`",
        }
    }

    /// The bytes of a request that a plan names by `text`; none where it has another form.
    pub fn request(self, host: &str, text: &str, keep_alive: bool) -> Option<Vec<u8>> {
        match self {
            Self::Http => http::request(host, text, keep_alive),
            Self::Memcached => memcached::request(text),
            Self::Mysql => mysql::request(text),
            Self::Redis => redis::request(text),
        }
    }
}

/// State of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed.
    More,
    /// Complete.
    Whole {
        /// Outcome of the reply.
        outcome: Outcome,
        /// True if the connection can be reused.
        keep: bool,
    },
    /// The connection ended before it was whole.
    Cut,
    /// Bytes that the protocol does not allow, or too many.
    Garbled,
}

/// Facts about a reply so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Summary {
    /// Status of HTTP; 0 for none.
    pub status: u16,
    /// Bytes of the content.
    pub bytes: u64,
}

/// Reads the replies of one connection, one after the other.
#[derive(Debug)]
pub enum Reader {
    /// See the protocol.
    Http(http::Reader),
    /// See the protocol.
    Memcached(memcached::Reader),
    /// See the protocol.
    Mysql(mysql::Reader),
    /// See the protocol.
    Redis(redis::Reader),
}

impl Reader {
    /// Reads one reply of this protocol.
    pub fn new(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Http => Self::Http(http::Reader::default()),
            Protocol::Memcached => Self::Memcached(memcached::Reader::default()),
            Protocol::Mysql => Self::Mysql(mysql::Reader::default()),
            Protocol::Redis => Self::Redis(redis::Reader::default()),
        }
    }

    /// Reads one reply to an operation over HTTP, which is judged as a whole.
    pub fn of_operation(request: &HttpRequest) -> Self {
        Self::Http(http::Reader::of_operation(request.is_head()))
    }

    /// The answer to an operation that was read in `data`, once it is whole.
    pub fn answer<'a>(&'a self, data: &'a [u8]) -> Option<Answer<'a>> {
        match self {
            Self::Http(reader) => reader.answer(data),
            _ => None,
        }
    }

    /// Reads on in `data`, all that has come; `ended`: no more will come.
    pub fn read(&mut self, data: &[u8], ended: bool, needle: &Finder<'_>) -> Progress {
        let progress = match self {
            Self::Http(reader) => reader.read(data, ended, needle),
            Self::Memcached(reader) => reader.read(data, needle),
            Self::Mysql(reader) => reader.read(data, needle),
            Self::Redis(reader) => reader.read(data, needle),
        };
        match progress {
            Progress::More if ended => Progress::Cut,
            Progress::More if data.len() > REPLY_BYTES_MAX + LINE_BYTES_MAX => Progress::Garbled,
            progress => progress,
        }
    }

    /// Facts about the last reply.
    pub fn summary(&self) -> Summary {
        match self {
            Self::Http(reader) => reader.summary(),
            Self::Memcached(reader) => Summary { status: 0, bytes: reader.bytes() },
            Self::Mysql(reader) => Summary { status: 0, bytes: reader.bytes() },
            Self::Redis(reader) => Summary { status: 0, bytes: reader.bytes() },
        }
    }
}

/// Judges a content by the wanted text.
fn judge(content: &[u8], needle: &Finder<'_>) -> Outcome {
    if needle.find(content).is_some() {
        Outcome::Ok
    } else {
        Outcome::BadContent
    }
}
