//! The part of HTTP/1.1 that a server of files needs.

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::core::message::Key;
use crate::page_key::is_key;

/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// More fields than any browser sends.
const FIELDS_MAX: usize = 64;

/// A request, as far as it matters.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// Its target without the first slash and without a query.
    pub path: String,
    /// True if only the head of the answer is requested.
    pub is_head: bool,
    /// True if the connection stays open after it.
    pub is_kept: bool,
}

/// Reasons for not answering a request.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Refusal {
    /// Bytes that are no request.
    Bad,
    /// Neither GET nor HEAD.
    Method,
    /// Too long.
    TooLong,
}

impl Refusal {
    /// Returns the status line of the answer, and its text.
    pub fn status(self) -> (&'static str, &'static str) {
        match self {
            Self::Bad => ("400 Bad Request", "expected a request without a body (got another)\n"),
            Self::Method => ("405 Method Not Allowed", "expected GET or HEAD\n"),
            Self::TooLong => {
                ("431 Request Header Fields Too Large", "expected a head of at most 8 KiB\n")
            }
        }
    }
}

/// Takes a request from the front, once it is complete.
///
/// # Errors
/// When it is none that can be answered; nothing that follows it can be understood then.
pub fn parse(bytes: &mut BytesMut) -> Result<Option<Request>, Refusal> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut fields);
    let length = match head.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Err(Refusal::TooLong)
        }
        Err(_) => return Err(Refusal::Bad),
    };
    let request = understood(&head)?;
    bytes.advance(length);
    Ok(Some(request))
}

fn understood(head: &httparse::Request) -> Result<Request, Refusal> {
    let (method, target) = (head.method.unwrap_or(""), head.path.unwrap_or(""));
    if !matches!(method, "GET" | "HEAD") {
        return Err(Refusal::Method);
    }
    let path = target.strip_prefix('/').ok_or(Refusal::Bad)?;
    let path = path.split('?').next().unwrap_or("");
    let mut is_kept = head.version == Some(1);
    for field in head.headers.iter() {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is("transfer-encoding") || (is("content-length") && field.value != b"0") {
            return Err(Refusal::Bad);
        }
        if is("connection") {
            is_kept = match field.value {
                value if value.eq_ignore_ascii_case(b"close") => false,
                value if value.eq_ignore_ascii_case(b"keep-alive") => true,
                _ => is_kept,
            };
        }
    }
    Ok(Request { path: path.to_owned(), is_head: method == "HEAD", is_kept })
}

impl Request {
    /// The page that it asks for, if it can be one.
    pub fn key(&self) -> Option<Key> {
        let key = if self.path.is_empty() { "index.html" } else { &self.path };
        is_key(key).then(|| key.into())
    }
}

/// The type of a file, by its name.
pub fn media_type(key: &str) -> &'static str {
    match key.rsplit_once('.').map_or("", |(_, end)| end) {
        "html" | "htm" => "text/html; charset=utf-8",
        "txt" => "text/plain; charset=utf-8",
        "css" => "text/css",
        "js" => "text/javascript",
        "json" => "application/json",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "svg" => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

/// An answer.
pub struct Reply {
    /// Status code and reason.
    pub status: &'static str,
    /// Media type of the body.
    pub media_type: &'static str,
    /// More fields, each with its line end.
    pub fields: &'static str,
    /// An answer with the requested page.
    pub body: Bytes,
}

impl Reply {
    /// An answer with a sentence.
    pub fn text(status: &'static str, text: impl Into<Bytes>) -> Self {
        Self { status, media_type: "text/plain; charset=utf-8", fields: "", body: text.into() }
    }

    /// Writes it.
    pub async fn write(
        self,
        stream: &mut TcpStream,
        is_head: bool,
        is_kept: bool,
    ) -> std::io::Result<()> {
        let connection = if is_kept { "" } else { "Connection: close\r\n" };
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}{connection}\r\n",
            self.status,
            self.media_type,
            self.body.len(),
            self.fields,
        );
        let body = if is_head { Bytes::new() } else { self.body };
        stream.write_all_buf(&mut Bytes::from(head).chain(body)).await
    }
}

/// Reads until there is a request.
///
/// # Errors
/// Those of `parse`. The result is none at the end of the connection, or where it breaks.
pub async fn next(
    stream: &mut TcpStream,
    bytes: &mut BytesMut,
) -> Result<Option<Request>, Refusal> {
    loop {
        if !bytes.is_empty() {
            if let Some(request) = parse(bytes)? {
                return Ok(Some(request));
            }
        }
        match stream.read_buf(bytes).await {
            Ok(0) | Err(_) => return Ok(None),
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Option<Request>, Refusal> {
        parse(&mut BytesMut::from(text))
    }

    #[test]
    fn a_request_says_which_page_and_whether_more_follow() {
        let request = parsed("GET /a/b.html?x=1 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap().unwrap();
        assert_eq!(request.key().as_deref(), Some("a/b.html"));
        assert!(request.is_kept && !request.is_head);
        let old = parsed("HEAD / HTTP/1.0\r\n\r\n").unwrap().unwrap();
        assert_eq!(old.key().as_deref(), Some("index.html"));
        assert!(!old.is_kept && old.is_head);
    }

    #[test]
    fn half_a_request_is_waited_for_and_the_next_one_is_left() {
        assert_eq!(parsed("GET / HTT"), Ok(None));
        let mut two = BytesMut::from("GET /a HTTP/1.1\r\n\r\nGET /b");
        assert!(parse(&mut two).unwrap().is_some());
        assert_eq!(&two[..], b"GET /b");
    }

    #[test]
    fn what_is_no_request_for_a_page_is_refused() {
        let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(HEAD_BYTES_MAX));
        for (text, refusal) in [
            ("POST / HTTP/1.1\r\n\r\n", Refusal::Method),
            ("GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", Refusal::Bad),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", Refusal::Bad),
            ("GET http://a/ HTTP/1.1\r\n\r\n", Refusal::Bad),
            ("\0\0\0\0", Refusal::Bad),
            (&long, Refusal::TooLong),
        ] {
            assert_eq!(parsed(text), Err(refusal), "{text:.40}");
        }
    }
}
