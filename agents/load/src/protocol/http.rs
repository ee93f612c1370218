//! Page views over HTTP/1.1. A good answer is complete, has status 200 and contains the page's
//! text; any other status is `bad_status`.

use httparse::{Response, Status, EMPTY_HEADER};
use memchr::memmem::Finder;

use super::{judge, Progress, Summary, LINE_BYTES_MAX, REPLY_BYTES_MAX};
use crate::answer::{Answer, FIELDS_MAX};
use crate::outcome::Outcome;

/// A view of the page at a path.
pub fn request(host: &str, path: &str, keep_alive: bool) -> Option<Vec<u8>> {
    let is_path = path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic());
    let end = if keep_alive { "" } else { "Connection: close\r\n" };
    let text = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: sparecraft\r\nAccept: */*\r\n{end}\r\n"
    );
    is_path.then(|| text.into_bytes())
}

/// End of the body.
#[derive(Debug, Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
    /// End of the connection.
    Close,
}

#[derive(Debug, Clone, Copy)]
struct Head {
    status: u16,
    framing: Framing,
    keep: bool,
    /// Start of the head.
    begin: usize,
    /// Start of the body.
    body: usize,
}

/// Reads one reply.
#[derive(Debug, Default)]
pub struct Reader {
    /// Up to here all is read: heads of status 1xx, and chunks.
    at: usize,
    head: Option<Head>,
    /// Content of the chunks so far.
    content: Vec<u8>,
    bytes: u64,
    /// The answer is to an operation, which is judged once it is whole.
    of_operation: bool,
    /// True if it has no body, whatever its head says.
    is_head: bool,
}

impl Reader {
    /// Reads the reply to an operation; `is_head` for one without a body.
    pub fn of_operation(is_head: bool) -> Self {
        Self { of_operation: true, is_head, ..Self::default() }
    }

    /// The whole answer that was read in `data`.
    pub fn answer<'a>(&'a self, data: &'a [u8]) -> Option<Answer<'a>> {
        let head = self.head.as_ref()?;
        let body = match head.framing {
            Framing::Chunked => &self.content,
            _ => data.get(head.body..head.body + self.bytes as usize)?,
        };
        Some(Answer { status: head.status, head: data.get(head.begin..head.body)?, body })
    }

    pub fn read(&mut self, data: &[u8], ended: bool, needle: &Finder<'_>) -> Progress {
        while self.head.is_none() {
            match read_head(&data[self.at..]) {
                Found::Head(mut head) => {
                    head.begin = self.at;
                    head.body += self.at;
                    self.at = head.body;
                    if self.is_head {
                        head.framing = Framing::Length(0);
                    }
                    // An interim answer: the true one follows.
                    if !(100..200).contains(&head.status) {
                        self.head = Some(head);
                    }
                }
                Found::Part => return Progress::More,
                Found::Garbled => return Progress::Garbled,
            }
        }
        self.read_body(data, ended, needle)
    }

    pub fn summary(&self) -> Summary {
        Summary { status: self.head.as_ref().map_or(0, |head| head.status), bytes: self.bytes }
    }

    fn read_body(&mut self, data: &[u8], ended: bool, needle: &Finder<'_>) -> Progress {
        let Some(head) = &self.head else {
            return Progress::More;
        };
        let Head { status, framing, keep, body: begin, .. } = *head;
        let size = data.len() - begin;
        match framing {
            Framing::Length(length) => {
                self.bytes = size.min(length) as u64;
                if size < length {
                    return Progress::More;
                }
                let content = &data[begin..begin + length];
                self.whole(status, content, needle, keep && size == length)
            }
            Framing::Close => {
                self.bytes = size as u64;
                match () {
                    () if size > REPLY_BYTES_MAX => Progress::Garbled,
                    () if ended => self.whole(status, &data[begin..], needle, false),
                    () => Progress::More,
                }
            }
            Framing::Chunked => {
                let progress = self.read_chunks(data);
                self.bytes = self.content.len() as u64;
                match progress {
                    Chunks::End => {
                        let rest = data.len() - self.at;
                        self.whole(status, &self.content, needle, keep && rest == 0)
                    }
                    Chunks::Part => Progress::More,
                    Chunks::Garbled => Progress::Garbled,
                }
            }
        }
    }

    fn whole(&self, status: u16, content: &[u8], needle: &Finder<'_>, keep: bool) -> Progress {
        let outcome = match status {
            _ if content.len() > REPLY_BYTES_MAX => return Progress::Garbled,
            _ if self.of_operation => Outcome::Ok,
            200 => judge(content, needle),
            _ => Outcome::BadStatus,
        };
        Progress::Whole { outcome, keep }
    }

    fn read_chunks(&mut self, data: &[u8]) -> Chunks {
        loop {
            let rest = &data[self.at..];
            let (line, size) = match httparse::parse_chunk_size(rest) {
                Ok(Status::Complete((line, size))) => (line, size as usize),
                Ok(Status::Partial) if rest.len() <= LINE_BYTES_MAX => return Chunks::Part,
                _ => return Chunks::Garbled,
            };
            if size == 0 {
                return self.read_trailer(data, self.at + line);
            }
            if size > REPLY_BYTES_MAX - self.content.len().min(REPLY_BYTES_MAX) {
                return Chunks::Garbled;
            }
            let end = line + size + 2;
            if rest.len() < end {
                return Chunks::Part;
            }
            if &rest[end - 2..end] != b"\r\n" {
                return Chunks::Garbled;
            }
            self.content.extend(&rest[line..line + size]);
            self.at += end;
        }
    }

    fn read_trailer(&mut self, data: &[u8], mut at: usize) -> Chunks {
        loop {
            let rest = &data[at..];
            let Some(end) = memchr::memmem::find(rest, b"\r\n") else {
                let is_line = rest.len() <= LINE_BYTES_MAX;
                return if is_line { Chunks::Part } else { Chunks::Garbled };
            };
            at += end + 2;
            if end == 0 {
                self.at = at;
                return Chunks::End;
            }
        }
    }
}

enum Chunks {
    Part,
    End,
    Garbled,
}

enum Found {
    Head(Head),
    Part,
    Garbled,
}

fn read_head(data: &[u8]) -> Found {
    let mut fields = [EMPTY_HEADER; FIELDS_MAX];
    let mut response = Response::new(&mut fields);
    match response.parse(data) {
        Ok(Status::Complete(body)) => {
            let status = response.code.unwrap_or(0);
            let version = response.version.unwrap_or(0);
            framing_of(status, version, response.headers)
                .map_or(Found::Garbled, |(framing, keep)| {
                    Found::Head(Head { begin: 0, status, framing, keep, body })
                })
        }
        Ok(Status::Partial) if data.len() <= LINE_BYTES_MAX => Found::Part,
        _ => Found::Garbled,
    }
}

/// The body's end, and whether the connection stays; none for lengths that contradict each other.
fn framing_of(
    status: u16,
    version: u8,
    fields: &[httparse::Header<'_>],
) -> Option<(Framing, bool)> {
    let (mut length, mut chunked, mut coded) = (None, false, false);
    let (mut close, mut alive) = (false, false);
    for field in fields {
        let text = std::str::from_utf8(field.value).unwrap_or("").trim();
        if field.name.eq_ignore_ascii_case("content-length") {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number: usize = text.parse().ok().filter(|_| is_number)?;
            if length.is_some_and(|before| before != number) || number > REPLY_BYTES_MAX {
                return None;
            }
            length = Some(number);
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            coded = true;
            chunked = has_word(text, "chunked");
        } else if field.name.eq_ignore_ascii_case("connection") {
            close |= has_word(text, "close");
            alive |= has_word(text, "keep-alive");
        }
    }
    let framing = match (status, length) {
        (204 | 304 | 100..=199, _) => Framing::Length(0),
        _ if chunked => Framing::Chunked,
        (_, Some(length)) if !coded => Framing::Length(length),
        _ => Framing::Close,
    };
    let stays = !close && (version >= 1 || alive) && !matches!(framing, Framing::Close);
    Some((framing, stays))
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(',').any(|item| item.trim().eq_ignore_ascii_case(word))
}
