//! A miss that is requested from another server (`memcached.miss = "ask"`): reads with a miss, and
//! the combination of two servers' replies to the same reads.

use std::collections::HashSet;

use super::command;
use crate::kv::number;

/// The reply to one read.
struct Answer<'a> {
    /// Key and bytes of each item; for a meta command the reply, without a key.
    hits: Vec<(&'a [u8], &'a [u8])>,
    /// The last line.
    end: &'a [u8],
}

/// True if the reply lacks an item. `commands` are `get` and `mg`, each with a reply.
pub fn has_miss(commands: &[u8], mut reply: &[u8]) -> bool {
    each(commands).any(|read| match answer(read, &mut reply) {
        Some(answer) => is_complete(&answer) && answer.hits.len() < wanted(read),
        None => false,
    })
}

/// Adds items of another server's reply that are missing.
pub fn merged(commands: &[u8], mut reply: &[u8], mut other: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(reply.len() + other.len());
    for read in each(commands) {
        let rest = reply;
        let (Some(one), two) = (answer(read, &mut reply), answer(read, &mut other)) else {
            out.extend_from_slice(rest);
            return out;
        };
        let known: HashSet<_> = one.hits.iter().map(|(key, _)| *key).collect();
        let two = two.filter(|two| is_complete(&one) && is_complete(two));
        let more = two.iter().flat_map(|two| &two.hits);
        let more: Vec<_> = more.filter(|(key, _)| !known.contains(key)).collect();
        for (_, bytes) in one.hits.iter().chain(more.iter().copied()) {
            out.extend_from_slice(bytes);
        }
        if one.end != META_MISS || more.is_empty() {
            out.extend_from_slice(one.end);
        }
    }
    out
}

const TEXT_END: &[u8] = b"END\r\n";
const META_MISS: &[u8] = b"EN\r\n";

/// Iterates over the commands.
fn each(mut commands: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        // They were found before.
        let length = command::next(commands).ok()??.length;
        let (one, rest) = commands.split_at(length);
        commands = rest;
        Some(one)
    })
}

fn is_meta(read: &[u8]) -> bool {
    read.trim_ascii_start().starts_with(b"mg ")
}

/// Number of items that a read asks for.
fn wanted(read: &[u8]) -> usize {
    if is_meta(read) {
        return 1;
    }
    let words = read.trim_ascii_end().split(|&byte| byte == b' ');
    words.filter(|word| !word.is_empty()).count() - 1
}

/// False for an error, which is no miss.
fn is_complete(answer: &Answer<'_>) -> bool {
    matches!(answer.end, TEXT_END | META_MISS | b"")
}

/// Splits off the reply to one read; none if it is not one.
fn answer<'a>(read: &[u8], reply: &mut &'a [u8]) -> Option<Answer<'a>> {
    let mut hits = vec![];
    loop {
        let line = line(reply)?;
        let mut words = line.trim_ascii_end().split(|&byte| byte == b' ');
        let (key, size) = match words.next()? {
            b"VALUE" => (words.next()?, Some(words.nth(1)?)),
            b"VA" => (&b""[..], Some(words.next()?)),
            b"HD" => (&b""[..], None),
            _ => {
                *reply = &reply[line.len()..];
                return Some(Answer { hits, end: line });
            }
        };
        let data = match size {
            Some(size) => usize::try_from(number(size)?).ok()? + 2,
            None => 0,
        };
        let (bytes, rest) = reply.split_at_checked(line.len() + data)?;
        hits.push((key, bytes));
        *reply = rest;
        if is_meta(read) {
            let end = b"";
            return Some(Answer { hits, end });
        }
    }
}

/// A line with its end.
fn line<'a>(reply: &&'a [u8]) -> Option<&'a [u8]> {
    let end = reply.iter().position(|&byte| byte == b'\n')?;
    Some(&reply[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_miss_is_an_item_that_is_not_there() {
        for (commands, reply, expected) in [
            ("get a\r\n", "END\r\n", true),
            ("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n", false),
            ("get a b\r\n", "VALUE a 0 5\r\nEND\r\n\r\nEND\r\n", true),
            ("get a\r\nget b\r\n", "VALUE a 0 1\r\nx\r\nEND\r\nEND\r\n", true),
            ("mg a v\r\n", "EN\r\n", true),
            ("mg a v\r\nmg b\r\n", "VA 2 f1\r\nEN\r\nHD\r\n", false),
            ("get a\r\n", "SERVER_ERROR out of memory\r\n", false),
            ("mg a v\r\n", "CLIENT_ERROR bad\r\n", false),
        ] {
            let result = has_miss(commands.as_bytes(), reply.as_bytes());
            assert_eq!(result, expected, "{commands:?} {reply:?}");
        }
    }

    #[test]
    fn two_replies_have_what_one_of_them_has() {
        let a = "VALUE a 0 1\r\nx\r\n";
        let b = "VALUE b 7 4\r\nEND\n\r\n";
        for (commands, first, second, expected) in [
            ("get a b\r\n", format!("{a}END\r\n"), format!("{b}END\r\n"), format!("{a}{b}END\r\n")),
            ("get a b\r\n", format!("{a}END\r\n"), format!("{a}END\r\n"), format!("{a}END\r\n")),
            (
                "get a\r\nmg b v\r\n",
                "END\r\nEN\r\n".into(),
                format!("{a}END\r\nVA 1\r\nz\r\n"),
                format!("{a}END\r\nVA 1\r\nz\r\n"),
            ),
            ("mg a\r\n", "EN\r\n".into(), "EN\r\n".into(), "EN\r\n".into()),
            ("get a\r\n", "END\r\n".into(), "ERROR\r\n".into(), "END\r\n".into()),
            ("get a\r\n", "END\r\n".into(), String::new(), "END\r\n".into()),
        ] {
            let reply = merged(commands.as_bytes(), first.as_bytes(), second.as_bytes());
            assert_eq!(String::from_utf8_lossy(&reply), expected, "{commands:?}");
        }
    }
}
