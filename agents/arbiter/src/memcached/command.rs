//! A client's commands: their ends, their classes, and refused ones.
//!
//! Stricter than memcached, which skips the item of a storage command only if it understood the
//! line. A line that memcached might not understand is refused here, because otherwise the item
//! could be read as commands.

use std::ops::Range;

use crate::kv::{line_end, number, HELD_MAX};

/// Maximum line, as in memcached; a `get` of many keys is bounded by memory only.
const LINE_MAX: usize = 64 * 1024;
/// Maximum key, as in memcached.
const KEY_MAX: usize = 250;
const WORDS_MAX: usize = 24;

/// The handling of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// To r servers; the first good reply wins.
    Read,
    /// To all servers.
    Write,
    /// To the reference: its own state, or its CAS values.
    Reference,
    /// To the reference; if it succeeds, the key is deleted on the others.
    Decided,
    /// `mn`: sent with the commands before it.
    Fence,
    /// `quit`.
    Quit,
    /// Answered with an error.
    Refused(&'static str),
}

/// A complete command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Its length, with its item.
    pub length: usize,
    /// Its handling.
    pub class: Class,
    /// True if it may have no reply.
    pub is_quiet: bool,
    /// Positions of the keys that it changes: words, of which all but `gats` have at most one.
    pub keys: Range<usize>,
    /// True if the key is in base64.
    pub is_base64: bool,
    /// True if it compares a CAS value.
    pub compares: bool,
    /// True for a read to which servers with equal items may reply differently.
    pub is_loose: bool,
}

/// Reason for refusing all further bytes: the reply to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused(pub &'static str);

const BAD_LINE: Refused = Refused("CLIENT_ERROR bad command line format\r\n");
const BAD_ITEM: Refused = Refused("CLIENT_ERROR bad data chunk\r\n");
const TOO_LARGE: Refused = Refused("SERVER_ERROR object too large for the arbiter\r\n");
const NOT_OFFERED: Class = Class::Refused("SERVER_ERROR not offered by the arbiter\r\n");

/// Parses the command at the start of `bytes`; none yet.
pub fn next(bytes: &[u8]) -> Result<Option<Command>, Refused> {
    next_after(bytes, &mut 0)
}

/// As `next`, with the number of bytes known to contain no line end; sets `looked_at` if there is
/// none still.
pub fn next_after(bytes: &[u8], looked_at: &mut usize) -> Result<Option<Command>, Refused> {
    if bytes.first() == Some(&0x80) {
        return Err(Refused("SERVER_ERROR the binary protocol is not offered\r\n"));
    }
    // The carriage return of the line's end may have been the last of them.
    let start = std::mem::take(looked_at).saturating_sub(1);
    let longest = if is_multiget(bytes) { HELD_MAX } else { LINE_MAX };
    let end = line_end(&bytes[start..], longest.saturating_sub(start));
    let Some(end) = end.map_err(|_| BAD_LINE)? else {
        *looked_at = bytes.len();
        return Ok(None);
    };
    let end = start + end;
    let line = &bytes[..end];
    if line.iter().any(|&byte| byte < b' ' || byte == 0x7f) {
        return Err(BAD_LINE);
    }
    let words = Words::of(line);
    let mut command = Command {
        length: end + 2,
        class: NOT_OFFERED,
        is_quiet: false,
        keys: 0..0,
        is_base64: false,
        compares: false,
        is_loose: false,
    };
    match words.get(0) {
        b"get" => command.class = Class::Read,
        b"gets" | b"stats" | b"version" | b"me" => command.reference(&words),
        b"gat" => command.class = Class::Write,
        b"gats" => {
            command.class = Class::Decided;
            command.keys = words.range(2).start..end;
        }
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => {
            return command.storage(&words, bytes)
        }
        b"incr" | b"decr" | b"delete" | b"touch" => command.write(&words, 1),
        b"flush_all" => command.write(&words, WORDS_MAX),
        b"mg" | b"md" | b"ma" => command.meta(&words)?,
        b"ms" => return command.meta_set(&words, bytes),
        b"mn" => command.class = Class::Fence,
        b"quit" => command.class = Class::Quit,
        _ => {}
    }
    Ok(Some(command))
}

/// True for lines that memcached accepts at any length.
fn is_multiget(bytes: &[u8]) -> bool {
    let line = bytes.trim_ascii_start();
    line.starts_with(b"get ") || line.starts_with(b"gets ")
}

/// Positions of the words of a line.
struct Words<'a> {
    line: &'a [u8],
    places: [(usize, usize); WORDS_MAX],
    count: usize,
}

impl<'a> Words<'a> {
    fn of(line: &'a [u8]) -> Self {
        let mut words = Self { line, places: [(0, 0); WORDS_MAX], count: 0 };
        let mut at = 0;
        while words.count < WORDS_MAX {
            let Some(skipped) = line[at..].iter().position(|&byte| byte != b' ') else {
                break;
            };
            let start = at + skipped;
            let length = line[start..].iter().position(|&byte| byte == b' ');
            at = length.map_or(line.len(), |length| start + length);
            words.places[words.count] = (start, at);
            words.count += 1;
        }
        words
    }

    /// A word; empty if there is none.
    fn get(&self, place: usize) -> &'a [u8] {
        let (start, end) = self.places.get(place).copied().unwrap_or_default();
        &self.line[start..end]
    }

    fn range(&self, place: usize) -> Range<usize> {
        let (start, end) = self.places.get(place).copied().unwrap_or_default();
        start..end
    }

    fn last(&self) -> &'a [u8] {
        self.get(self.count.saturating_sub(1))
    }

    fn flags(&self, from: usize) -> impl Iterator<Item = &'a [u8]> + '_ {
        (from..self.count).map(|place| self.get(place))
    }
}

impl Command {
    fn reference(&mut self, words: &Words<'_>) {
        self.class = match (words.get(0), words.get(1)) {
            // Others change something, or stream.
            (b"stats", b"" | b"items" | b"slabs" | b"settings" | b"conns") => Class::Reference,
            (b"stats", _) => NOT_OFFERED,
            _ => Class::Reference,
        };
    }

    fn write(&mut self, words: &Words<'_>, key: usize) {
        self.class = Class::Write;
        self.keys = words.range(key);
        self.is_quiet = words.last() == b"noreply";
    }

    /// `set <key> <flags> <exptime> <bytes> [noreply]`, `cas <key> <flags> <exptime> <bytes> <cas>`
    fn storage(mut self, words: &Words<'_>, bytes: &[u8]) -> Result<Option<Self>, Refused> {
        let is_cas = words.get(0) == b"cas";
        let plain = 5 + usize::from(is_cas);
        let is_noreply = words.count == plain + 1 && words.last() == b"noreply";
        let fits = words.count == plain || is_noreply;
        let flags = number(words.get(2)).is_some_and(|flags| u32::try_from(flags).is_ok());
        let expiry = parsed::<i32>(words.get(3)).is_some();
        let cas = !is_cas || parsed::<u64>(words.get(5)).is_some();
        if !fits || words.get(1).len() > KEY_MAX || !flags || !expiry || !cas {
            return Err(BAD_LINE);
        }
        self.class = if is_cas { Class::Decided } else { Class::Write };
        self.compares = is_cas;
        self.keys = words.range(1);
        self.is_quiet = is_noreply;
        self.with_item(words.get(4), bytes)
    }

    /// Adds the item after the line.
    fn with_item(mut self, size: &[u8], bytes: &[u8]) -> Result<Option<Self>, Refused> {
        let size = number(size).ok_or(BAD_LINE)?;
        let size = usize::try_from(size).map_err(|_| TOO_LARGE)?;
        if size > HELD_MAX - LINE_MAX {
            return Err(TOO_LARGE);
        }
        let end = self.length + size;
        let Some(line_end) = bytes.get(end..end + 2) else {
            return Ok(None);
        };
        if line_end != b"\r\n" {
            return Err(BAD_ITEM);
        }
        self.length = end + 2;
        Ok(Some(self))
    }

    /// `mg <key> <flag>*`, `md`, `ma`
    fn meta(&mut self, words: &Words<'_>) -> Result<(), Refused> {
        // More words than are looked at could hide a flag.
        if words.count >= WORDS_MAX {
            return Err(BAD_LINE);
        }
        let mut has = [false; 128];
        for flag in words.flags(2) {
            if let Some(seen) = flag.first().and_then(|&sign| has.get_mut(usize::from(sign))) {
                *seen = true;
            }
        }
        let has = |sign: u8| has[usize::from(sign)];
        let deals_in_cas = has(b'c') || has(b'C') || has(b'E');
        let is_get = words.get(0) == b"mg";
        // Hit before, last access, time to live.
        self.is_loose = has(b'h') || has(b'l') || has(b't');
        // Vivify and recache: one client is told to fetch the value, by one server.
        let elects = is_get && (has(b'N') || has(b'R'));
        let changes = !is_get || has(b'T');
        self.class = match (changes, deals_in_cas || elects) {
            (false, false) => Class::Read,
            (false, true) => Class::Reference,
            (true, false) => Class::Write,
            (true, true) => Class::Decided,
        };
        self.compares = has(b'C');
        self.keys = words.range(1);
        self.is_base64 = has(b'b');
        self.is_quiet = has(b'q');
        Ok(())
    }

    /// `ms <key> <datalen> <flag>*`
    fn meta_set(mut self, words: &Words<'_>, bytes: &[u8]) -> Result<Option<Self>, Refused> {
        let key = words.get(1);
        self.meta(words)?;
        let base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
        let is_key = !key.is_empty()
            && key.len() <= KEY_MAX
            && (!self.is_base64 || key.len() % 4 == 0 && key.iter().all(base64));
        let mut is_given = [false; 128];
        for flag in words.flags(3) {
            let (sign, rest) = flag.split_first().ok_or(BAD_LINE)?;
            let is_fine = match sign {
                b'b' | b'c' | b'I' | b'k' | b'q' | b's' => rest.is_empty(),
                b'C' | b'E' => parsed::<u64>(rest).is_some(),
                b'F' => parsed::<u32>(rest).is_some(),
                b'T' => parsed::<i32>(rest).is_some(),
                b'O' => rest.len() <= 32,
                b'M' => matches!(rest, b"S" | b"E" | b"A" | b"P" | b"R"),
                _ => false,
            };
            let is_new = !std::mem::replace(&mut is_given[usize::from(*sign) & 127], true);
            if !is_fine || !is_new {
                return Err(BAD_LINE);
            }
        }
        if !is_key {
            return Err(BAD_LINE);
        }
        self.with_item(words.get(2), bytes)
    }
}

fn parsed<N: std::str::FromStr>(digits: &[u8]) -> Option<N> {
    let plain = digits.first() != Some(&b'+');
    std::str::from_utf8(digits).ok().filter(|_| plain)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(bytes: &[u8]) -> Class {
        let command = next(bytes).unwrap().unwrap();
        assert_eq!(command.length, bytes.len());
        for end in 0..bytes.len() {
            assert_eq!(next(&bytes[..end]), Ok(None));
        }
        command.class
    }

    #[test]
    fn commands_are_told_apart() {
        for (bytes, expected) in [
            (&b"get a b c\r\n"[..], Class::Read),
            (b"gets a\r\n", Class::Reference),
            (b"gat 9 a\r\n", Class::Write),
            (b"set a 0 -1 3\r\na\r\n\r\n", Class::Write),
            (b"append a 0 0 0 noreply\r\n\r\n", Class::Write),
            (b"cas a 0 0 1 18446744073709551615\r\nx\r\n", Class::Decided),
            (b"delete a\r\n", Class::Write),
            (b"flush_all\r\n", Class::Write),
            (b"mg a v k\r\n", Class::Read),
            (b"mg a v c\r\n", Class::Reference),
            (b"mg a v N30\r\n", Class::Reference),
            (b"mg a T30 v\r\n", Class::Write),
            (b"md a q\r\n", Class::Write),
            (b"md a C5\r\n", Class::Decided),
            (b"ma a D2 v\r\n", Class::Write),
            (b"ms a 2 T0 F5\r\nhi\r\n", Class::Write),
            (b"ms YQ== 2 b C77\r\nhi\r\n", Class::Decided),
            (b"mn\r\n", Class::Fence),
            (b"stats\r\n", Class::Reference),
            (b"stats detail on\r\n", NOT_OFFERED),
            (b"watch\r\n", NOT_OFFERED),
            (b"\r\n", NOT_OFFERED),
            (b"quit\r\n", Class::Quit),
        ] {
            assert_eq!(class(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn what_servers_may_say_differently_is_told_apart() {
        let is_loose = |bytes: &[u8]| next(bytes).unwrap().unwrap().is_loose;
        assert!(is_loose(b"mg a v t\r\n") && is_loose(b"mg a h\r\n") && is_loose(b"mg a l\r\n"));
        assert!(!is_loose(b"mg a v k f s\r\n") && !is_loose(b"get t h l\r\n"));
    }

    #[test]
    fn keys_and_silence_are_seen() {
        let bytes = b"set  key 0 0 1 noreply\r\nx\r\n";
        let command = next(bytes).unwrap().unwrap();
        assert_eq!(&bytes[command.keys], b"key");
        let several = b"gats 10 a  b\r\n";
        let gats = next(several).unwrap().unwrap();
        assert_eq!((gats.class, &several[gats.keys]), (Class::Decided, &b"a  b"[..]));
        assert!(command.is_quiet);
        assert!(next(b"mg k q v\r\n").unwrap().unwrap().is_quiet);
        assert!(next(b"md k b\r\n").unwrap().unwrap().is_base64);
    }

    #[test]
    fn a_line_that_could_be_read_in_another_way_is_refused() {
        let long = format!("set {} 0 0 1\r\nx\r\n", "k".repeat(251));
        for bytes in [
            &b"set k 0 0\r\n"[..],
            b"set k 0 0 -1\r\n",
            b"set k 0 0 01\r\nx\r\n",
            b"set k x 0 1\r\nx\r\n",
            b"set k 4294967296 0 1\r\nx\r\n",
            b"set k 0 99999999999 1\r\nx\r\n",
            b"set k 0 0 1 maybe\r\nx\r\n",
            b"set k 0 0 1\r\nxy\r\n",
            b"set k 0 0 99999999999\r\n",
            b"cas k 0 0 1\r\nx\r\n",
            b"cas k 0 0 1 99999999999999999999\r\nx\r\n",
            b"ms k S1\r\nx\r\n",
            b"ms k 1 T0 T1\r\nx\r\n",
            b"ms k 1 Z\r\nx\r\n",
            b"ms k! 1 b\r\nx\r\n",
            b"get k\n",
            b"get \x01\r\n",
            b"\x80\x00\x00\x01",
            long.as_bytes(),
        ] {
            assert!(next(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
        assert!(next(&vec![b'g'; LINE_MAX + 2]).is_err());
    }

    #[test]
    fn a_get_is_as_long_as_it_is_and_is_looked_through_once() {
        let line = [&b"get"[..], &b" key".repeat(LINE_MAX), b"\r\n"].concat();
        let whole = next(&line).unwrap().unwrap();
        assert_eq!((whole.class, whole.length), (Class::Read, line.len()));
        let mut looked_at = 0;
        for end in [3, LINE_MAX, line.len() - 1] {
            assert_eq!(next_after(&line[..end], &mut looked_at), Ok(None));
            assert_eq!(looked_at, end);
        }
        assert_eq!(next_after(&line, &mut looked_at), Ok(Some(whole)));
        assert_eq!(looked_at, 0);
    }
}
