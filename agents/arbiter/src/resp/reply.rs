//! The end of a server's reply, in RESP2 and RESP3. Stateful, so that a large reply is looked at
//! once however it arrives; nested replies are counted, not descended into.

use crate::kv::{line_end, number, take_ended, Broken, Dialect, Followed, Kind};

/// Maximum line: a simple string, an error, a number, a length.
pub const LINE_MAX: usize = 64 * 1024;
/// Maximum string that Redis allows.
const BULK_MAX: u64 = 512 * 1024 * 1024;
/// Maximum elements of one aggregate, and of a reply with everything nested in it.
const ELEMENTS_MAX: u64 = 1 << 32;

/// First words of errors of the server's making, where another replica may do better. Similar ones
/// are the command's (`BUSYGROUP`, `BUSYKEY`).
const SERVER_ERRORS: [&[u8]; 7] =
    [b"LOADING", b"MASTERDOWN", b"BUSY", b"CLUSTERDOWN", b"TRYAGAIN", b"OOM", b"MISCONF"];

/// Follows a stream of replies.
#[derive(Debug, Default)]
pub struct Replies {
    /// Elements still to come in this reply; 0 between replies.
    elements: u64,
    /// Bytes of a string still to come, with its line end.
    string: u64,
    /// True if the present reply is a push.
    is_push: bool,
    is_server_error: bool,
}

impl Dialect for Replies {
    type State = super::State;

    const FLAVOURS: usize = 2;
    const TOO_MUCH: &'static [u8] = b"-ERR arbiter: too much is held for clients; try again\r\n";

    fn greeting(flavour: usize) -> &'static [u8] {
        match flavour {
            1 => b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n",
            _ => b"",
        }
    }

    fn follow(&mut self, bytes: &[u8]) -> Result<Followed, Broken> {
        let mut used = 0;
        loop {
            let left = &bytes[used..];
            if self.string > 0 {
                used += take_ended(&mut self.string, left)?;
                if self.string > 0 {
                    return Ok(Followed { used, reply: None });
                }
                self.elements -= 1;
            } else {
                let Some(end) = line_end(left, LINE_MAX)? else {
                    return Ok(Followed { used, reply: None });
                };
                self.line(&left[..end])?;
                used += end + 2;
            }
            if self.elements == 0 {
                return Ok(Followed { used, reply: Some(self.end()) });
            }
        }
    }
}

impl Replies {
    fn end(&mut self) -> Kind {
        let kind = match (self.is_push, self.is_server_error) {
            (true, _) => Kind::Push,
            (false, true) => Kind::ServerError,
            (false, false) => Kind::Reply,
        };
        *self = Self::default();
        kind
    }

    /// Follows one line: a scalar, or the head of a string or an aggregate.
    fn line(&mut self, line: &[u8]) -> Result<(), Broken> {
        let is_first = self.elements == 0;
        if is_first {
            self.elements = 1;
        }
        let Some((&sign, rest)) = line.split_first() else {
            return Err(Broken("an empty line"));
        };
        match sign {
            b'+' | b':' | b'_' | b',' | b'#' | b'(' => self.elements -= 1,
            b'-' => {
                let word = rest.split(|&byte| byte == b' ').next();
                self.is_server_error =
                    is_first && word.is_some_and(|word| SERVER_ERRORS.contains(&word));
                self.elements -= 1;
            }
            b'$' | b'=' | b'!' => match length(rest, BULK_MAX)? {
                Some(length) => self.string = length + 2,
                None => self.elements -= 1,
            },
            b'*' | b'~' | b'%' | b'>' | b'|' => self.aggregate(sign, rest, is_first)?,
            _ => return Err(Broken("a type that RESP does not have")),
        }
        Ok(())
    }

    fn aggregate(&mut self, sign: u8, rest: &[u8], is_first: bool) -> Result<(), Broken> {
        let count = length(rest, ELEMENTS_MAX)?.unwrap_or(0);
        let members = if matches!(sign, b'%' | b'|') { 2 * count } else { count };
        if sign == b'>' {
            if !is_first {
                return Err(Broken("a push inside a reply"));
            }
            self.is_push = true;
        }
        // An attribute comes before the element that it describes.
        let itself = u64::from(sign != b'|');
        self.elements = self.elements - itself + members;
        if self.elements > ELEMENTS_MAX {
            return Err(Broken("too many elements"));
        }
        Ok(())
    }
}

/// Parses a length; none for the null of RESP2.
fn length(digits: &[u8], most: u64) -> Result<Option<u64>, Broken> {
    if digits == b"-1" {
        return Ok(None);
    }
    number(digits).filter(|&length| length <= most).map(Some).ok_or(Broken("a length that is none"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::replies;

    #[test]
    fn every_type_ends_where_it_ends() {
        for reply in [
            &b"+OK\r\n"[..],
            b"-ERR no\r\n",
            b":-12\r\n",
            b"$0\r\n\r\n",
            b"$5\r\na\r\nbc\r\n",
            b"$-1\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"*2\r\n*1\r\n:1\r\n$1\r\nx\r\n",
            b"%2\r\n+a\r\n:1\r\n+b\r\n*2\r\n:1\r\n:2\r\n",
            b"~1\r\n_\r\n",
            b",1.5\r\n",
            b"#t\r\n",
            b"(123456789012345678901234567890\r\n",
            b"=7\r\ntxt:abc\r\n",
            b"!3\r\nERR\r\n",
            b"|1\r\n+ttl\r\n:9\r\n*1\r\n+x\r\n",
            b"*1\r\n|1\r\n+a\r\n+b\r\n+x\r\n",
        ] {
            let twice = [reply, reply].concat();
            let ends = [(reply.len(), Kind::Reply), (twice.len(), Kind::Reply)];
            assert_eq!(replies::<Replies>(&twice).unwrap(), ends);
            assert_eq!(replies::<Replies>(&reply[..reply.len() - 1]).unwrap(), []);
        }
    }

    #[test]
    fn pushes_and_errors_of_the_server_are_told_apart() {
        let bytes = b">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n-LOADING data\r\n*1\r\n-LOADING\r\n";
        let kinds: Vec<_> =
            replies::<Replies>(bytes).unwrap().into_iter().map(|(_, kind)| kind).collect();
        assert_eq!(kinds, [Kind::Push, Kind::ServerError, Kind::Reply]);
    }

    #[test]
    fn an_error_is_known_by_its_whole_first_word() {
        for (reply, kind) in [
            (&b"-BUSY Redis is busy running a script.\r\n"[..], Kind::ServerError),
            (b"-BUSY\r\n", Kind::ServerError),
            (b"-BUSYGROUP Consumer Group name already exists\r\n", Kind::Reply),
            (b"-BUSYKEY Target key name already exists.\r\n", Kind::Reply),
            (b"-OOM command not allowed\r\n", Kind::ServerError),
            (b"-OOMPH\r\n", Kind::Reply),
        ] {
            assert_eq!(replies::<Replies>(reply).unwrap(), [(reply.len(), kind)]);
        }
    }

    #[test]
    fn what_is_not_resp_is_refused() {
        for bytes in [
            &b"HTTP/1.1 200 OK\r\n"[..],
            b"+OK\n",
            b"\n",
            b"\r\n",
            b"$3\r\nabcd\r\n",
            b"$3\r\nabc\rX",
            b"$03\r\n",
            b"$-2\r\n",
            b"$?\r\n",
            b"$536870913\r\n",
            b"*1\r\n>1\r\n+x\r\n",
            b"*99999999999\r\n",
            b"%4294967296\r\n",
        ] {
            assert!(replies::<Replies>(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
        assert!(replies::<Replies>(&vec![b'+'; LINE_MAX + 2]).is_err());
    }
}
