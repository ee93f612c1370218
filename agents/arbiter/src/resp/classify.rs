//! The class of a Redis command: the table of `docs/arbiter.md`.

use super::command::arguments;

/// Routing class of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// To r servers; the first good reply wins.
    Read,
    /// As `Read`; equal servers may reply differently: order of a set, remaining time, chance.
    Loose,
    /// To the primary: changes data, or may.
    Write,
    /// To the primary, without a change: state of that server only.
    Ask,
    /// Gives the client a dedicated connection to the primary.
    Pin,
    /// `HELLO` with a version only.
    Hello,
    /// `SELECT 0`, the database of every client.
    Stay,
    /// `CLIENT SETNAME`.
    Name,
    /// `CLIENT SETINFO`: ignored.
    Note,
    /// `CLIENT ID`.
    Id,
    /// `CLIENT GETNAME`.
    OwnName,
    /// `QUIT`.
    Quit,
    /// Refused with an error.
    Refuse,
    /// A subcommand of `CLIENT` that only some servers have: answered as unknown.
    NoSubcommand,
}

/// Reads with the same result on every replica that has caught up. Sorted.
#[rustfmt::skip]
const READS: [&str; 74] = [
    "BITCOUNT", "BITFIELD_RO", "BITPOS", "DUMP", "ECHO", "EXISTS", "EXPIRETIME", "GEODIST",
    "GEOHASH", "GEOPOS", "GEORADIUSBYMEMBER_RO", "GEORADIUS_RO", "GEOSEARCH", "GET", "GETBIT",
    "GETRANGE", "HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "HRANDFIELD",
    "HSTRLEN", "HVALS", "KEYS", "LCS", "LINDEX", "LLEN", "LPOS", "LRANGE", "MGET",
    "PEXPIRETIME", "PING", "PTTL", "RANDOMKEY", "SCARD", "SDIFF", "SINTER", "SINTERCARD",
    "SISMEMBER", "SMEMBERS", "SMISMEMBER", "SORT_RO", "SRANDMEMBER", "STRLEN", "SUBSTR",
    "SUNION", "TTL", "TYPE", "XINFO", "XLEN", "XPENDING", "XRANGE", "XREAD", "XREVRANGE",
    "ZCARD", "ZCOUNT", "ZDIFF", "ZINTER", "ZINTERCARD", "ZLEXCOUNT", "ZMSCORE", "ZRANDMEMBER",
    "ZRANGE", "ZRANGEBYLEX", "ZRANGEBYSCORE", "ZRANK", "ZREVRANGE", "ZREVRANGEBYLEX",
    "ZREVRANGEBYSCORE", "ZREVRANK", "ZSCORE", "ZUNION",
];

/// Members of `READS` to which servers with equal data may reply differently. Sorted.
#[rustfmt::skip]
const LOOSE: [&str; 18] = [
    "DUMP", "HGETALL", "HKEYS", "HRANDFIELD", "HVALS", "KEYS", "PTTL", "RANDOMKEY", "SDIFF",
    "SINTER", "SMEMBERS", "SORT_RO", "SRANDMEMBER", "SUNION", "TTL", "XINFO", "XPENDING",
    "ZRANDMEMBER",
];

/// Writes, scripts, and messages to the clients of all servers. They leave nothing in the
/// connection and do not block. Sorted.
#[rustfmt::skip]
const WRITES: [&str; 93] = [
    "APPEND", "BITFIELD", "BITOP", "COPY", "DECR", "DECRBY", "DEL", "EVAL", "EVALSHA", "EXPIRE",
    "EXPIREAT", "FCALL", "FLUSHALL", "FLUSHDB", "GEOADD", "GEORADIUS", "GEORADIUSBYMEMBER",
    "GEOSEARCHSTORE", "GETDEL", "GETEX", "GETSET", "HDEL", "HINCRBY", "HINCRBYFLOAT", "HMSET",
    "HSET", "HSETNX", "INCR", "INCRBY", "INCRBYFLOAT", "LINSERT", "LMOVE", "LMPOP", "LPOP",
    "LPUSH", "LPUSHX", "LREM", "LSET", "LTRIM", "MOVE", "MSET", "MSETNX", "PERSIST", "PEXPIRE",
    "PEXPIREAT", "PFADD", "PFMERGE", "PSETEX", "PUBLISH", "RENAME", "RENAMENX", "RESTORE",
    "RPOP", "RPOPLPUSH", "RPUSH", "RPUSHX", "SADD", "SDIFFSTORE", "SET", "SETBIT", "SETEX",
    "SETNX", "SETRANGE", "SINTERSTORE", "SMOVE", "SORT", "SPOP", "SPUBLISH", "SREM",
    "SUNIONSTORE", "UNLINK", "XACK", "XADD", "XAUTOCLAIM", "XCLAIM", "XDEL", "XGROUP",
    "XREADGROUP", "XSETID", "XTRIM", "ZADD", "ZDIFFSTORE", "ZINCRBY", "ZINTERSTORE", "ZMPOP",
    "ZPOPMAX", "ZPOPMIN", "ZRANGESTORE", "ZREM", "ZREMRANGEBYLEX", "ZREMRANGEBYRANK",
    "ZREMRANGEBYSCORE", "ZUNIONSTORE",
];

/// Commands for the primary without a change: cursors, read-only scripts, and state of the server.
/// Sorted.
#[rustfmt::skip]
const OF_PRIMARY: [&str; 17] = [
    "COMMAND", "DBSIZE", "EVALSHA_RO", "EVAL_RO", "FCALL_RO", "HSCAN", "INFO", "LASTSAVE", "MEMORY",
    "OBJECT", "PFCOUNT", "ROLE", "SCAN", "SSCAN", "TIME", "TOUCH", "ZSCAN",
];

/// Subcommands for the primary that change no data. Sorted.
#[rustfmt::skip]
const ASKS: [(&str, &[&str]); 9] = [
    ("ACL", &["CAT", "DRYRUN", "GENPASS", "GETUSER", "HELP", "LIST", "LOG", "USERS", "WHOAMI"]),
    ("CLIENT", &["LIST"]),
    ("CONFIG", &["GET", "HELP"]),
    ("FUNCTION", &["DUMP", "HELP", "LIST", "STATS"]),
    ("LATENCY", &["DOCTOR", "GRAPH", "HELP", "HISTOGRAM", "HISTORY", "LATEST"]),
    ("MODULE", &["HELP", "LIST"]),
    ("PUBSUB", &["CHANNELS", "HELP", "NUMPAT", "NUMSUB", "SHARDCHANNELS", "SHARDNUMSUB"]),
    ("SCRIPT", &["EXISTS", "HELP", "LOAD"]),
    ("SLOWLOG", &["GET", "HELP", "LEN"]),
];

/// Subcommands of `CLIENT` that Redis has had for long. Others, such as `MAINT_NOTIFICATIONS`,
/// exist at some servers only; clients go on if they are unknown.
#[rustfmt::skip]
const OF_CLIENT: [&[u8]; 18] = [
    b"CACHING", b"GETNAME", b"GETREDIR", b"HELP", b"ID", b"INFO", b"KILL", b"LIST", b"NO-EVICT",
    b"NO-TOUCH", b"PAUSE", b"REPLY", b"SETINFO", b"SETNAME", b"TRACKING", b"TRACKINGINFO",
    b"UNBLOCK", b"UNPAUSE",
];

/// Commands (or only these subcommands of them) that would change, stop or slow the server for
/// everybody, or (`WAIT`) concern a connection that the client does not have. Sorted.
#[rustfmt::skip]
const REFUSED: [(&str, &[&str]); 24] = [
    ("ACL", &["DELUSER", "LOAD", "SAVE", "SETUSER"]),
    ("BGREWRITEAOF", &[]), ("BGSAVE", &[]),
    ("CLIENT", &["KILL", "NO-EVICT", "PAUSE", "UNPAUSE"]),
    ("CLUSTER", &[]),
    ("CONFIG", &["RESETSTAT", "REWRITE", "SET"]),
    ("DEBUG", &[]), ("FAILOVER", &[]),
    ("FUNCTION", &["FLUSH", "KILL", "RESTORE"]),
    ("LATENCY", &["RESET"]),
    ("MIGRATE", &[]),
    ("MODULE", &["LOAD", "LOADEX", "UNLOAD"]),
    ("PSYNC", &[]), ("REPLCONF", &[]), ("REPLICAOF", &[]), ("SAVE", &[]),
    ("SCRIPT", &["DEBUG", "FLUSH", "KILL"]),
    ("SHUTDOWN", &[]), ("SLAVEOF", &[]),
    ("SLOWLOG", &["RESET"]),
    ("SWAPDB", &[]), ("SYNC", &[]), ("WAIT", &[]), ("WAITAOF", &[]),
];

/// Refused only without a dedicated connection.
const REFUSED_UNPINNED: [&[u8]; 2] = [b"WAIT", b"WAITAOF"];

/// True if a command of this class is always refused.
pub fn is_refused_always(command: &[u8], class: Class) -> bool {
    let name = arguments(command).next().unwrap_or_default();
    let is = |word: &&[u8]| name.eq_ignore_ascii_case(word);
    match class {
        Class::NoSubcommand => true,
        Class::Refuse => !REFUSED_UNPINNED.iter().any(is),
        _ => false,
    }
}

/// Longest name in the tables.
const NAME_MAX: usize = 24;

/// Classifies a command that [`super::command::Commands`] found.
pub fn classify(command: &[u8]) -> Class {
    let mut arguments = arguments(command);
    let Some(name) = arguments.next() else {
        return Class::Pin;
    };
    let mut upper = [0; NAME_MAX];
    let Some(upper) = upper.get_mut(..name.len()) else {
        return Class::Pin;
    };
    upper.copy_from_slice(name);
    upper.make_ascii_uppercase();
    let name: &[u8] = upper;
    let has = |table: &[&str]| {
        let place = table.binary_search_by(|entry| entry.as_bytes().cmp(name));
        place.is_ok()
    };
    match name {
        b"GET" => Class::Read,
        b"SET" => Class::Write,
        b"XREAD" | b"XREADGROUP" if arguments.any(|word| word.eq_ignore_ascii_case(b"BLOCK")) => {
            Class::Pin
        }
        _ if has(&LOOSE) => Class::Loose,
        _ if has(&READS) => Class::Read,
        _ if has(&WRITES) => Class::Write,
        _ if has(&OF_PRIMARY) => Class::Ask,
        b"FUNCTION" if changes_functions(arguments.clone().next()) => Class::Write,
        _ if refuses(name, arguments.clone().next()) => Class::Refuse,
        _ if is_among(&ASKS, name, arguments.clone().next()) => Class::Ask,
        b"HELLO" => hello(arguments),
        b"SELECT" if arguments.next() == Some(b"0") && arguments.next().is_none() => Class::Stay,
        b"CLIENT" => client(arguments),
        b"QUIT" => Class::Quit,
        _ => Class::Pin,
    }
}

/// True if every replica gets them too.
fn changes_functions(subcommand: Option<&[u8]>) -> bool {
    subcommand.is_some_and(|word| {
        word.eq_ignore_ascii_case(b"LOAD") || word.eq_ignore_ascii_case(b"DELETE")
    })
}

/// True if `REFUSED` lists it; the name is in capitals.
fn refuses(name: &[u8], subcommand: Option<&[u8]>) -> bool {
    is_among(&REFUSED, name, subcommand)
}

/// True if a table lists the command, or this subcommand of it.
fn is_among(table: &[(&str, &[&str])], name: &[u8], subcommand: Option<&[u8]>) -> bool {
    let place = table.binary_search_by(|(entry, _)| entry.as_bytes().cmp(name));
    let subcommands = place.map(|place| table[place].1);
    subcommands.is_ok_and(|listed| {
        let is = |entry: &&str| {
            subcommand.is_some_and(|word| word.eq_ignore_ascii_case(entry.as_bytes()))
        };
        listed.is_empty() || listed.iter().any(is)
    })
}

fn hello<'a>(mut arguments: impl Iterator<Item = &'a [u8]>) -> Class {
    match (arguments.next(), arguments.next()) {
        (Some(b"2" | b"3"), None) => Class::Hello,
        _ => Class::Pin,
    }
}

fn client<'a>(mut arguments: impl Iterator<Item = &'a [u8]>) -> Class {
    let words = (arguments.next(), arguments.next(), arguments.next());
    match words {
        (Some(word), Some(_), None) if word.eq_ignore_ascii_case(b"SETNAME") => Class::Name,
        (Some(word), Some(_), Some(_)) if word.eq_ignore_ascii_case(b"SETINFO") => Class::Note,
        (Some(word), None, None) if word.eq_ignore_ascii_case(b"ID") => Class::Id,
        (Some(word), None, None) if word.eq_ignore_ascii_case(b"GETNAME") => Class::OwnName,
        (Some(word), _, _) if !OF_CLIENT.iter().any(|known| word.eq_ignore_ascii_case(known)) => {
            Class::NoSubcommand
        }
        _ => Class::Pin,
    }
}

#[cfg(test)]
mod tests {
    use super::super::command::with_lengths;
    use super::*;

    fn class(line: &str) -> Class {
        classify(&with_lengths(line.as_bytes()))
    }

    fn is_always_refused(line: &str) -> bool {
        is_refused_always(&with_lengths(line.as_bytes()), class(line))
    }

    #[test]
    fn the_tables_are_sorted_and_no_command_is_in_two() {
        let refused = REFUSED.map(|(name, _)| name);
        let asks = ASKS.map(|(name, _)| name);
        for table in [&READS[..], &LOOSE, &WRITES, &OF_PRIMARY, &refused, &asks] {
            assert!(table.windows(2).all(|two| two[0] < two[1]), "{table:?}");
            assert!(table.iter().all(|name| name.len() <= NAME_MAX));
        }
        let at_primary = |name: &&str| WRITES.contains(name) || OF_PRIMARY.contains(name);
        assert!(!READS.iter().any(at_primary));
        assert!(!WRITES.iter().any(|name| OF_PRIMARY.contains(name)));
        let sent = |name: &&str| READS.contains(name) || at_primary(name);
        assert!(!refused.iter().chain(&asks).any(sent));
        assert!(LOOSE.iter().all(|name| READS.contains(name)));
    }

    #[test]
    fn what_would_hurt_everybody_is_refused_of_everybody() {
        for line in [
            "ACL SETUSER eve on nopass +@all ~*",
            "acl deluser eve",
            "ACL LOAD",
            "ACL SAVE",
            "BGREWRITEAOF",
            "BGSAVE",
            "CLIENT KILL TYPE normal",
            "client pause 10000",
            "CLIENT UNPAUSE",
            "CLIENT NO-EVICT on",
            "CLUSTER RESET",
            "CONFIG SET maxmemory 1",
            "config rewrite",
            "CONFIG RESETSTAT",
            "DEBUG SLEEP 10",
            "FAILOVER",
            "FUNCTION FLUSH",
            "FUNCTION KILL",
            "FUNCTION RESTORE x FLUSH",
            "LATENCY RESET",
            "MIGRATE h 1 k 0 1",
            "MODULE LOAD /x.so",
            "MODULE LOADEX /x.so",
            "MODULE UNLOAD x",
            "PSYNC ? -1",
            "REPLICAOF NO ONE",
            "SAVE",
            "SCRIPT KILL",
            "SCRIPT FLUSH",
            "SCRIPT DEBUG SYNC",
            "SHUTDOWN NOSAVE",
            "SLAVEOF h 1",
            "SLOWLOG RESET",
            "SWAPDB 0 1",
            "SYNC",
        ] {
            assert_eq!(class(line), Class::Refuse, "{line}");
            assert!(is_always_refused(line), "{line}");
        }
    }

    #[test]
    fn what_only_asks_or_is_the_client_s_own_affair_is_not_refused() {
        for line in [
            "ACL WHOAMI",
            "ACL LIST",
            "CLIENT LIST",
            "CLIENT ID",
            "CLIENT GETNAME",
            "CLIENT SETNAME KILL",
            "CLIENT SETINFO lib-name x",
            "CLIENT NO-TOUCH on",
            "CLIENT TRACKING ON",
            "CONFIG GET SET",
            "CONFIG",
            "FUNCTION LOAD x",
            "FUNCTION LIST",
            "LATENCY DOCTOR",
            "MODULE LIST",
            "SCRIPT LOAD x",
            "SCRIPT EXISTS x",
            "SLOWLOG GET",
            "MEMORY USAGE k",
            "COMMAND DOCS",
            "GET SAVE",
            "READONLY",
            "RESET",
        ] {
            assert_ne!(class(line), Class::Refuse, "{line}");
            assert!(!is_always_refused(line), "{line}");
        }
        for line in ["WAIT 1 0", "WAITAOF 1 0 0"] {
            assert!(!is_always_refused(line), "{line}");
        }
    }

    #[test]
    fn commands_are_told_apart() {
        for (line, expected) in [
            ("get k", Class::Read),
            ("MGET a b", Class::Read),
            ("smembers s", Class::Loose),
            ("ZREVRANGEBYSCORE k 2 1", Class::Read),
            ("GEORADIUSBYMEMBER_RO k m 1 km", Class::Read),
            ("XREAD COUNT 1 STREAMS s 0", Class::Read),
            ("XREAD block 0 STREAMS s 0", Class::Pin),
            ("XREADGROUP GROUP g c STREAMS s >", Class::Write),
            ("SET k v", Class::Write),
            ("SCAN 0", Class::Ask),
            ("time", Class::Ask),
            ("EVAL return 0", Class::Write),
            ("EVAL_RO return 0", Class::Ask),
            ("SORT k STORE l", Class::Write),
            ("BLPOP k 0", Class::Pin),
            ("MULTI", Class::Pin),
            ("SUBSCRIBE c", Class::Pin),
            ("AUTH secret", Class::Pin),
            ("SELECT 0", Class::Stay),
            ("SELECT 1", Class::Pin),
            ("HELLO 3", Class::Hello),
            ("HELLO 3 AUTH u p", Class::Pin),
            ("HELLO", Class::Pin),
            ("CLIENT SETNAME me", Class::Name),
            ("client setinfo LIB-NAME x", Class::Note),
            ("CLIENT LIST", Class::Ask),
            ("CLIENT INFO", Class::Pin),
            ("CLIENT TRACKING ON", Class::Pin),
            ("CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type none", Class::NoSubcommand),
            ("client capa redirect", Class::NoSubcommand),
            ("CLIENT", Class::Pin),
            ("CONFIG GET save", Class::Ask),
            ("CONFIG", Class::Pin),
            ("script load x", Class::Ask),
            ("FUNCTION LOAD x", Class::Write),
            ("CLIENT id", Class::Id),
            ("CLIENT GETNAME", Class::OwnName),
            ("WAIT 1 0", Class::Refuse),
            ("SHUTDOWN", Class::Refuse),
            ("JSON.GET k", Class::Pin),
            ("AVERYLONGCOMMANDNAMETHATNOBODYHAS", Class::Pin),
        ] {
            assert_eq!(class(line), expected, "{line}");
        }
    }
}
