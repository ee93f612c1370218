//! Reasons for a client's pin: the state that its commands have left in its own connection, by the
//! server's replies. A client is free again when nothing is left.
//!
//! The default is the safe one: an unknown command holds for good, unless the server does not know
//! it either.

use super::classify::{classify, Class};
use super::command::arguments;

/// Bytes at the start of a reply that show its command's success.
pub const START: usize = 16;

/// Commands that wait or only inform, and leave no state.
const BLOCKING: [&str; 11] = [
    "BLMOVE",
    "BLMPOP",
    "BLPOP",
    "BRPOP",
    "BRPOPLPUSH",
    "BZMPOP",
    "BZPOPMAX",
    "BZPOPMIN",
    "LOLWUT",
    "XREAD",
    "XREADGROUP",
];

/// Subcommands of `CLIENT` that only ask.
const ASKS_OF_CLIENT: [&[u8]; 5] = [b"GETREDIR", b"HELP", b"INFO", b"TRACKINGINFO", b"UNBLOCK"];

/// Protocol settings that a client's dedicated connection needs first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manners {
    /// True for RESP3.
    pub resp3: bool,
    /// The client's name.
    pub name: Option<Vec<u8>>,
}

impl Manners {
    /// The reply to `CLIENT GETNAME`.
    pub fn own_name(&self) -> Vec<u8> {
        match (&self.name, self.resp3) {
            (None, true) => b"_\r\n".to_vec(),
            (None, false) => b"$-1\r\n".to_vec(),
            (Some(name), _) => {
                let head = format!("${}\r\n", name.len()).into_bytes();
                [&head[..], name, b"\r\n"].concat()
            }
        }
    }
}

/// State that a command leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// `MULTI`.
    Begin,
    /// `EXEC`, also of an aborted transaction.
    Exec,
    /// `DISCARD`.
    Discard,
    /// `WATCH`.
    Watch,
    /// `UNWATCH`.
    Unwatch,
    /// `SELECT`; true for the shared database.
    Select(bool),
    /// `RESET`.
    Reset,
    /// `HELLO` without a login: version, and name if given.
    Hello(bool, Option<Vec<u8>>),
    /// `CLIENT SETNAME`.
    Name(Vec<u8>),
    /// Permanent state: a login, tracking, a subscription.
    Lasting,
    /// Not known here.
    Unknown,
}

/// Effect of a complete command.
pub fn effect(command: &[u8]) -> Effect {
    let mut words = arguments(command);
    let name = words.next().unwrap_or_default();
    let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
    match classify(command) {
        Class::Hello => hello(words),
        Class::Stay => Effect::Select(true),
        Class::Name => words.nth(1).map_or(Effect::Nothing, |name| Effect::Name(name.to_vec())),
        Class::Pin => match name {
            _ if is("MULTI") => Effect::Begin,
            _ if is("EXEC") => Effect::Exec,
            _ if is("DISCARD") => Effect::Discard,
            _ if is("WATCH") => Effect::Watch,
            _ if is("UNWATCH") => Effect::Unwatch,
            _ if is("SELECT") => Effect::Select(false),
            _ if is("RESET") => Effect::Reset,
            _ if is("HELLO") => hello(words),
            _ if is("CLIENT") => match words.next() {
                Some(word) if ASKS_OF_CLIENT.iter().any(|ask| word.eq_ignore_ascii_case(ask)) => {
                    Effect::Nothing
                }
                _ => Effect::Lasting,
            },
            _ if BLOCKING.iter().any(|word| is(word)) => Effect::Nothing,
            _ if is("AUTH") || is("MONITOR") => Effect::Lasting,
            _ => Effect::Unknown,
        },
        _ => Effect::Nothing,
    }
}

/// `HELLO [version [AUTH user password] [SETNAME name]]`
fn hello<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Effect {
    let resp3 = match words.next() {
        None => return Effect::Nothing,
        Some(version) => version == b"3",
    };
    let mut name = None;
    while let Some(word) = words.next() {
        match words.next() {
            Some(new_name) if word.eq_ignore_ascii_case(b"SETNAME") => {
                name = Some(new_name.to_vec())
            }
            _ => return Effect::Lasting,
        }
    }
    Effect::Hello(resp3, name)
}

/// State of a dedicated connection.
#[derive(Debug, Default)]
pub struct Hold {
    in_transaction: bool,
    watches: bool,
    is_elsewhere: bool,
    for_good: bool,
    /// Protocol settings for later connections.
    pub manners: Manners,
}

impl Hold {
    /// Starts with these settings.
    pub fn new(manners: Manners) -> Self {
        Self { manners, ..Self::default() }
    }

    /// True if only this connection has some of the state.
    pub fn is_held(&self) -> bool {
        self.in_transaction || self.watches || self.is_elsewhere || self.for_good
    }

    /// True while a transaction is open.
    pub fn is_in_transaction(&self) -> bool {
        self.in_transaction
    }

    /// Notes the start of the reply to a command.
    pub fn replied(&mut self, effect: Effect, start: &[u8]) {
        let is_error = start.starts_with(b"-");
        match effect {
            Effect::Nothing => {}
            Effect::Exec if !is_error || start.starts_with(b"-EXECABORT") => self.end(),
            Effect::Unknown if is_error && start.starts_with(b"-ERR unknown") => {}
            Effect::Unknown => self.for_good = true,
            // A command that failed has left nothing.
            _ if is_error => {}
            // The effect of a transaction is known only afterwards.
            Effect::Unwatch if start.starts_with(b"+QUEUED") => {}
            _ if start.starts_with(b"+QUEUED") => self.for_good = true,
            Effect::Begin => self.in_transaction = true,
            Effect::Exec | Effect::Discard => self.end(),
            Effect::Watch => self.watches = true,
            Effect::Unwatch => self.watches = false,
            Effect::Select(is_home) => self.is_elsewhere = !is_home,
            Effect::Reset => *self = Self::default(),
            Effect::Hello(resp3, name) => {
                self.manners.resp3 = resp3;
                self.manners.name = name.or(self.manners.name.take());
            }
            Effect::Name(name) => self.manners.name = Some(name).filter(|name| !name.is_empty()),
            Effect::Lasting => self.for_good = true,
        }
    }

    fn end(&mut self) {
        self.in_transaction = false;
        self.watches = false;
    }
}

#[cfg(test)]
mod tests {
    use super::super::command::with_lengths;
    use super::*;

    fn held(exchanges: &[(&str, &str)]) -> Hold {
        let mut hold = Hold::default();
        for (command, reply) in exchanges {
            hold.replied(effect(&with_lengths(command.as_bytes())), reply.as_bytes());
        }
        hold
    }

    #[test]
    fn what_has_ended_holds_nobody() {
        for exchanges in [
            &[("MULTI", "+OK"), ("SET k v", "+QUEUED"), ("EXEC", "*1")][..],
            &[("MULTI", "+OK"), ("exec", "-EXECABORT Transa")],
            &[("WATCH k", "+OK"), ("MULTI", "+OK"), ("EXEC", "*-1")],
            &[("WATCH k", "+OK"), ("UNWATCH", "+OK")],
            &[("WATCH k", "+OK"), ("MULTI", "+OK"), ("DISCARD", "+OK")],
            &[("SELECT 1", "+OK"), ("SELECT 0", "+OK")],
            &[("SELECT 99", "-ERR DB index")],
            &[("SELECT 1", "+OK"), ("AUTH p", "+OK"), ("RESET", "+RESET")],
            &[("AUTH x", "-ERR Client sent")],
            &[("BLPOP q 1", "*-1"), ("XREAD BLOCK 1 STREAMS s 0", "*-1")],
            &[("CLIENT INFO", "$9"), ("HELLO", "%7")],
            &[("NO.SUCH x", "-ERR unknown comm")],
            &[("HELLO 3 SETNAME me", "%7")],
        ] {
            assert!(!held(exchanges).is_held(), "{exchanges:?}");
        }
    }

    #[test]
    fn what_is_left_or_not_known_holds() {
        for exchanges in [
            &[("MULTI", "+OK"), ("SET k v", "+QUEUED")][..],
            &[("WATCH k", "+OK")],
            &[("WATCH k", "+OK"), ("EXEC", "-ERR EXEC without")],
            &[("MULTI", "+OK"), ("EXEC x", "-ERR wrong number")],
            &[("MULTI", "+OK"), ("UNWATCH", "+QUEUED")],
            &[("SELECT 1", "+OK")],
            &[("MULTI", "+OK"), ("SELECT 1", "+QUEUED"), ("EXEC", "*1")],
            &[("AUTH p", "+OK")],
            &[("HELLO 3 AUTH u p", "%7")],
            &[("CLIENT TRACKING on", "+OK")],
            &[("JSON.GET k", "$1")],
            &[("JSON.GET k", "-WRONGTYPE Opera")],
        ] {
            assert!(held(exchanges).is_held(), "{exchanges:?}");
        }
    }

    #[test]
    fn version_and_name_are_what_the_replies_say() {
        let manners = |exchanges| held(exchanges).manners;
        let both = manners(&[("HELLO 3 SETNAME me", "%7")]);
        assert_eq!((both.resp3, both.name.as_deref()), (true, Some(&b"me"[..])));
        let refused = manners(&[("HELLO 9", "-NOPROTO unsupp"), ("CLIENT SETNAME x", "+OK")]);
        assert_eq!((refused.resp3, refused.name.as_deref()), (false, Some(&b"x"[..])));
        let new = manners(&[("HELLO 3 SETNAME me", "%7"), ("RESET", "+RESET")]);
        assert_eq!((new.resp3, new.name), (false, None));
    }
}
