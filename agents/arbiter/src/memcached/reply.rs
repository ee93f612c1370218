//! The end of a server's reply. Stateful, so that a large reply is looked at once however it
//! arrives.

use crate::kv::{line_end, number, take_ended, Broken, Dialect, Followed, Kind};

/// Longest line.
const LINE_MAX: usize = 8 * 1024;
/// Largest item that memcached can be told to hold.
const ITEM_MAX: u64 = 1024 * 1024 * 1024;

/// Follows a stream of replies.
#[derive(Debug, Default)]
pub struct Replies {
    /// Bytes of an item still to come, with its line end.
    item: u64,
    /// True if more lines follow, up to `END`.
    in_list: bool,
}

impl Dialect for Replies {
    type State = ();

    const FLAVOURS: usize = 1;
    const TOO_MUCH: &'static [u8] =
        b"SERVER_ERROR arbiter: too much is held for clients; try again\r\n";

    fn greeting(_flavour: usize) -> &'static [u8] {
        b""
    }

    fn follow(&mut self, bytes: &[u8]) -> Result<Followed, Broken> {
        let mut used = 0;
        loop {
            let left = &bytes[used..];
            if self.item > 0 {
                used += take_ended(&mut self.item, left)?;
                if self.item > 0 {
                    return Ok(Followed { used, reply: None });
                }
                if !self.in_list {
                    let reply = Some(Kind::Reply);
                    return Ok(Followed { used, reply });
                }
                continue;
            }
            let Some(end) = line_end(left, LINE_MAX)? else {
                return Ok(Followed { used, reply: None });
            };
            let reply = self.line(&left[..end])?;
            used += end + 2;
            if reply.is_some() {
                self.in_list = false;
                return Ok(Followed { used, reply });
            }
        }
    }
}

impl Replies {
    /// Follows one line; none if more follows.
    fn line(&mut self, line: &[u8]) -> Result<Option<Kind>, Broken> {
        let mut words = line.split(|&byte| byte == b' ');
        let first = words.next().unwrap_or_default();
        let size = match first {
            // VALUE <key> <flags> <bytes> [<cas>]
            b"VALUE" => {
                self.in_list = true;
                words.nth(2)
            }
            b"VA" if !self.in_list => words.next(),
            b"STAT" => {
                self.in_list = true;
                return Ok(None);
            }
            b"END" => return Ok(Some(Kind::Reply)),
            b"SERVER_ERROR" => return Ok(Some(Kind::ServerError)),
            b"ERROR" | b"CLIENT_ERROR" => return Ok(Some(Kind::Reply)),
            b"MN" if !self.in_list => return Ok(Some(Kind::Fence)),
            b"STORED" | b"NOT_STORED" | b"EXISTS" | b"NOT_FOUND" | b"DELETED" | b"TOUCHED"
            | b"OK" | b"RESET" | b"VERSION" | b"HD" | b"EN" | b"NF" | b"NS" | b"EX" | b"ME"
                if !self.in_list =>
            {
                return Ok(Some(Kind::Reply))
            }
            _ if !self.in_list && is_count(line) => return Ok(Some(Kind::Reply)),
            _ => return Err(Broken("a line that memcached does not say")),
        };
        let size = size
            .and_then(number)
            .filter(|&size| size <= ITEM_MAX)
            .ok_or(Broken("a size that is none"))?;
        self.item = size + 2;
        Ok(None)
    }
}

/// True for a reply to `incr` or `decr`; memcached may pad the latter with spaces.
fn is_count(line: &[u8]) -> bool {
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (1..=20).contains(&digits) && line[digits..].iter().all(|&byte| byte == b' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::replies;

    #[test]
    fn every_reply_ends_where_it_ends() {
        for reply in [
            &b"STORED\r\n"[..],
            b"END\r\n",
            b"VALUE k 0 3\r\nEND\r\nEND\r\n",
            b"VALUE k 0 0\r\n\r\nVALUE l 5 2 77\r\n\r\n\r\nEND\r\n",
            b"VA 2 f0\r\nMN\r\n",
            b"VA 0\r\n\r\n",
            b"HD O1 q\r\n",
            b"18446744073709551615\r\n",
            b"9 \r\n",
            b"STAT pid 1\r\nSTAT version x y\r\nEND\r\n",
            b"CLIENT_ERROR bad command line format\r\n",
        ] {
            let twice = [reply, reply].concat();
            let ends = [(reply.len(), Kind::Reply), (twice.len(), Kind::Reply)];
            assert_eq!(replies::<Replies>(&twice).unwrap(), ends);
            assert_eq!(replies::<Replies>(&reply[..reply.len() - 1]).unwrap(), []);
        }
        let ends = [(4, Kind::Fence), (20, Kind::ServerError)];
        assert_eq!(replies::<Replies>(b"MN\r\nSERVER_ERROR x\r\n").unwrap(), ends);
    }

    #[test]
    fn what_is_not_memcached_is_refused() {
        for bytes in [
            &b"+OK\r\n"[..],
            b"END\n",
            b"VALUE k 0\r\n",
            b"VALUE k 0 -1\r\n",
            b"VALUE k 0 3\r\nabcdEND\r\n",
            b"VALUE k 0 3\r\nabc\r\nSTORED\r\n",
            b"VA x\r\n",
            b"VA 2000000000\r\n",
            b"123456789012345678901\r\n",
        ] {
            assert!(replies::<Replies>(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
        assert!(replies::<Replies>(&vec![b'S'; LINE_MAX + 2]).is_err());
    }
}
