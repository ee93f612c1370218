//! Lines and blocks of a text protocol, and the values that key-value loads write.

use memchr::memmem;

use super::{LINE_BYTES_MAX, REPLY_BYTES_MAX};

/// Result of parsing the bytes so far.
pub enum Found<T> {
    /// An item.
    Item(T),
    /// Only its beginning.
    Part,
    /// Bytes that the protocol does not allow, or too many.
    Garbled,
}

/// The line that begins at `at`, without its end, and the place after it.
pub fn line(data: &[u8], at: usize) -> Found<(&[u8], usize)> {
    let rest = &data[at..];
    match memmem::find(rest, b"\r\n") {
        Some(end) => Found::Item((&rest[..end], at + end + 2)),
        None if rest.len() > LINE_BYTES_MAX => Found::Garbled,
        None => Found::Part,
    }
}

/// The block of `size` bytes that begins at `at`, without its end, and the place after it.
pub fn block(data: &[u8], at: usize, size: usize) -> Found<(&[u8], usize)> {
    let end = at + size;
    if end > REPLY_BYTES_MAX {
        return Found::Garbled;
    }
    match data.get(end..end + 2) {
        Some(b"\r\n") => Found::Item((&data[at..end], end + 2)),
        Some(_) => Found::Garbled,
        None => Found::Part,
    }
}

/// A size that a server stated, at most that of a reply; -1 for none.
pub fn size(text: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (-1..=REPLY_BYTES_MAX as i64).contains(&number).then_some(number)
}

/// Value of a write: the key repeated, with spaces between, up to the size.
pub fn value(key: &str, size: usize) -> Vec<u8> {
    key.bytes().chain([b' ']).cycle().take(size).collect()
}

/// A size in a request, at most that of a reply.
pub fn size_of(text: &str) -> Option<usize> {
    text.parse().ok().filter(|size| *size <= REPLY_BYTES_MAX)
}
