//! The class of a statement: a read that may be cloned, a session statement that every server must see,
//! or something for one server.
//!
//! The default is the safe one: what is not known to be a read goes to one server, and the session
//! stays there (`Pin`), because it may have left state behind. The table is in `docs/arbiter.md`.

use smallvec::SmallVec;

use super::lexer::{Lexer, Token};

/// Routing class of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Class {
    /// SELECT or SHOW without side effects: to all servers of the session, first reply wins.
    Read,
    /// A read that depends on the previous statement: to the server that answered that one.
    One,
    /// A read of the last write's result: to the server that executed it.
    InsertId,
    /// Changes data: to the one server that is written to.
    Write(Left),
    /// Reads and locks until the transaction ends: as a write, or as `Pin` if no server is written
    /// to.
    LockingRead,
    /// To every server of the session.
    Session(Effect),
    /// To one server, as everything after it.
    Pin,
    /// As `Pin`, and takes locks that outlive it and are not in the server's status.
    Lock,
    /// Refused, with the reason.
    Refuse(&'static str),
}

/// Effect of a statement on data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Does {
    /// None, or not known.
    #[default]
    Nothing,
    /// Reads data.
    Reads,
    /// Changes data.
    Writes,
}

impl Class {
    /// Effect on data, by class.
    pub fn does(&self) -> Does {
        match self {
            Self::Write(_) => Does::Writes,
            Self::Read | Self::One | Self::InsertId | Self::LockingRead => Does::Reads,
            Self::Session(_) | Self::Pin | Self::Lock | Self::Refuse(_) => Does::Nothing,
        }
    }
}

/// State that a write leaves, or may leave, in the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// None.
    Nothing,
    /// A variable, for example.
    State,
    /// Locks: see [`Class::Lock`].
    Locks,
}

/// Access mode of a transaction, by the statement that begins it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads and writes.
    Any,
    /// Reads only.
    Read,
    /// Reads of a snapshot that is taken at its begin.
    Snapshot,
}

/// State that a session statement leaves, of which a server that joins later must be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// A permanent setting.
    Set,
    /// The current database.
    Use(Vec<u8>),
    /// A transaction begins.
    Begin(Access),
    /// A statement within a transaction.
    Within,
    /// The transaction ends.
    End,
    /// The session is reset (COM_RESET_CONNECTION).
    Reset,
    /// A statement is prepared (COM_STMT_PREPARE).
    Prepare(u32),
    /// A prepared statement is closed.
    Close(u32),
    /// Cannot be repeated: no server may join from now on.
    Unrepeatable,
    /// As `Unrepeatable`, and a reset does not undo it (COM_SET_OPTION).
    Sticky,
}

/// Classifies the text of a COM_QUERY.
pub fn classify(sql: &[u8]) -> Class {
    let mut lexer = Lexer::new(sql);
    let mut tokens = SmallVec::<[Token<'_>; 64]>::new();
    while let Some(token) = lexer.next_token() {
        tokens.push(token);
    }
    let class = if lexer.is_odd() { Class::Pin } else { judge(sql, &tokens) };
    match class {
        Class::Pin if takes_locks(&tokens) => Class::Lock,
        Class::Write(_) if takes_locks(&tokens) => Class::Write(Left::Locks),
        class => class,
    }
}

/// True if locks may remain: of tables, named ones, open handlers.
fn takes_locks(tokens: &[Token<'_>]) -> bool {
    let mut statements = tokens.split(|token| *token == Token::Symbol(b';'));
    let begins = |statement: &[Token<'_>]| {
        let first = &statement[..statement.len().min(1)];
        has_word(first, &["LOCK", "FLUSH", "HANDLER", "BACKUP"])
    };
    has_word(tokens, &["GET_LOCK"]) || statements.any(begins)
}

/// Classifies a text without odd tokens.
fn judge(sql: &[u8], mut tokens: &[Token<'_>]) -> Class {
    while let Some((Token::Symbol(b';'), before)) = tokens.split_last() {
        tokens = before;
    }
    if tokens.contains(&Token::Symbol(b';')) {
        let mut statements = tokens.split(|token| *token == Token::Symbol(b';'));
        return if statements.any(writes) { Class::Write(Left::State) } else { Class::Pin };
    }
    let is_local =
        has_word(&tokens[..tokens.len().min(1)], &["LOAD"]) && has_word(tokens, &["LOCAL"]);
    if writes(tokens) && !is_local {
        let stays = |token: &Token<'_>| matches!(token, Token::UserVariable | Token::Assign);
        let is_call = has_word(&tokens[..1], &["CALL"]);
        let leaves = is_call || has_word(tokens, &["RELEASE_LOCK", "LAST_INSERT_ID"]);
        return Class::Write(if leaves || tokens.iter().any(stays) {
            Left::State
        } else {
            Left::Nothing
        });
    }
    let opened = tokens.iter().take_while(|token| **token == Token::Symbol(b'(')).count();
    let Some(Token::Word(first)) = tokens.get(opened) else {
        return Class::Pin;
    };
    let rest = &tokens[opened + 1..];
    match first.to_ascii_uppercase().as_slice() {
        b"SELECT" => select(rest),
        // Of a SELECT, since it writes nothing.
        b"WITH" if opened == 0 => select(rest),
        b"SHOW" if opened == 0 => show(rest),
        b"EXPLAIN" | b"DESCRIBE" | b"DESC" if opened == 0 => explain(rest),
        b"KILL" | b"SHUTDOWN" => Class::Refuse("KILL and SHUTDOWN must be sent to a server itself"),
        b"LOAD" if has_word(rest, &["LOCAL"]) => {
            Class::Refuse("LOCAL INFILE is not supported; load a file of the server, or insert")
        }
        b"SET" => set(sql, rest),
        b"USE" => match rest {
            [Token::Word(name)] => Class::Session(Effect::Use(name.to_vec())),
            [Token::Quoted(name)] if !name.contains(&b'`') => {
                Class::Session(Effect::Use(name.to_vec()))
            }
            _ => Class::Pin,
        },
        b"BEGIN" | b"START" | b"COMMIT" | b"ROLLBACK" | b"SAVEPOINT" | b"RELEASE" => {
            transaction(first, rest)
        }
        _ => Class::Pin,
    }
}

/// True if a statement changes data, by its first word. Effects of stored functions and executed
/// texts cannot be seen.
fn writes(statement: &[Token<'_>]) -> bool {
    let first = &statement[..statement.len().min(1)];
    let second = &statement[first.len()..statement.len().min(2)];
    let is_temporary = has_word(second, &["TEMPORARY"]);
    if has_word(first, &["WITH"]) {
        return has_word(statement, &["UPDATE", "DELETE", "INSERT", "REPLACE"]);
    }
    has_word(first, &WRITES) && !is_temporary
}

/// First words of statements that change data.
const WRITES: [&str; 17] = [
    "ALTER", "ANALYZE", "CALL", "CREATE", "DELETE", "DROP", "GRANT", "IMPORT", "INSERT", "LOAD",
    "OPTIMIZE", "RENAME", "REPAIR", "REPLACE", "REVOKE", "TRUNCATE", "UPDATE",
];

fn words<'a>(tokens: &'a [Token<'a>]) -> impl Iterator<Item = &'a [u8]> {
    tokens.iter().filter_map(|token| match token {
        Token::Word(word) => Some(*word),
        _ => None,
    })
}

fn has_word(tokens: &[Token<'_>], wanted: &[&str]) -> bool {
    words(tokens).any(|word| wanted.iter().any(|other| word.eq_ignore_ascii_case(other.as_bytes())))
}

/// Meaning of a word of a SELECT.
#[derive(PartialEq, Eq)]
enum Mark {
    Nothing,
    /// Leaves state, takes a lock, or writes.
    Pins,
    /// Depends on the previous statement, or on the server.
    One,
    /// Reads the result of the last insert.
    Left,
    /// Pins if one of these words follows.
    PinsBefore(&'static [&'static str]),
    /// Locks the rows it reads if one of these words follows.
    LocksBefore(&'static [&'static str]),
    /// LAST_INSERT_ID(x) sets what LAST_INSERT_ID() reads.
    InsertId,
}

/// Length of the longest word with a meaning.
const MARK_MAX: usize = 20;

fn mark(word: &[u8]) -> Mark {
    let mut upper = [0; MARK_MAX];
    let Some(upper) = upper.get_mut(..word.len()) else {
        return Mark::Nothing;
    };
    upper.copy_from_slice(word);
    upper.make_ascii_uppercase();
    match &*upper {
        b"INTO"
        | b"GET_LOCK"
        | b"RELEASE_LOCK"
        | b"RELEASE_ALL_LOCKS"
        | b"IS_FREE_LOCK"
        | b"IS_USED_LOCK"
        | b"NEXTVAL"
        | b"LASTVAL"
        | b"SETVAL"
        | b"SQL_CALC_FOUND_ROWS"
        | b"PROCEDURE" => Mark::Pins,
        b"IDENTITY" => Mark::Left,
        b"FOUND_ROWS" | b"ROW_COUNT" | b"CONNECTION_ID" | b"MASTER_POS_WAIT"
        | b"MASTER_GTID_WAIT" | b"WARNING_COUNT" | b"ERROR_COUNT" | b"PSEUDO_THREAD_ID"
        | b"RAND_SEED1" | b"RAND_SEED2" | b"INSERT_ID" => Mark::One,
        b"LAST_INSERT_ID" => Mark::InsertId,
        b"FOR" => Mark::LocksBefore(&["UPDATE", "SHARE"]),
        b"LOCK" => Mark::LocksBefore(&["IN"]),
        b"NEXT" | b"PREVIOUS" => Mark::PinsBefore(&["VALUE"]),
        _ => Mark::Nothing,
    }
}

fn select(tokens: &[Token<'_>]) -> Class {
    let mut class = Class::Read;
    let mut locks = false;
    for (place, token) in tokens.iter().enumerate() {
        let next = &tokens[place + 1..tokens.len().min(place + 2)];
        let mark = match token {
            Token::UserVariable | Token::Assign => Mark::Pins,
            Token::Word(word) => mark(word),
            _ => Mark::Nothing,
        };
        match mark {
            Mark::Nothing => {}
            Mark::Pins => return Class::Pin,
            Mark::PinsBefore(words) if has_word(next, words) => return Class::Pin,
            Mark::LocksBefore(words) if has_word(next, words) => locks = true,
            Mark::InsertId if sets_insert_id(&tokens[place + 1..]) => return Class::Pin,
            Mark::Left | Mark::InsertId => class = Class::InsertId,
            Mark::One if class == Class::Read => class = Class::One,
            Mark::One => {}
            Mark::PinsBefore(_) | Mark::LocksBefore(_) => {}
        }
    }
    if locks {
        Class::LockingRead
    } else {
        class
    }
}

/// True if LAST_INSERT_ID has an argument.
fn sets_insert_id(after: &[Token<'_>]) -> bool {
    matches!(after, [Token::Symbol(b'('), argument, ..] if *argument != Token::Symbol(b')'))
}

fn show(tokens: &[Token<'_>]) -> Class {
    if has_word(tokens, &["WARNINGS", "ERRORS", "PROFILE", "PROFILES"]) {
        Class::One
    } else if tokens.contains(&Token::UserVariable) || has_word(tokens, &["INTO"]) {
        Class::Pin
    } else {
        Class::Read
    }
}

fn explain(tokens: &[Token<'_>]) -> Class {
    let is_plain = !has_word(tokens, &["ANALYZE"]) && !tokens.contains(&Token::Assign);
    if is_plain {
        Class::One
    } else {
        Class::Pin
    }
}

fn set(sql: &[u8], tokens: &[Token<'_>]) -> Class {
    // A value that servers compute may differ; GLOBAL is not the session's; these modes change how
    // statements are to be read.
    let modes: [&[u8]; 7] =
        [b"BACKSLASH", b"ANSI", b"ORACLE", b"MSSQL", b"POSTGRESQL", b"DB2", b"MAXDB"];
    let upper = sql.to_ascii_uppercase();
    let names = |word: &&[u8]| upper.windows(word.len()).any(|window| window == *word);
    let changes_reading = modes.iter().chain(&AMBIGUOUS).any(names)
        || is_set_indirectly(tokens, b"SQL_MODE")
        || is_set_indirectly(tokens, b"CHARACTER_SET_CLIENT");
    let pins = tokens.contains(&Token::Symbol(b'('))
        || has_word(tokens, &["SELECT", "GLOBAL", "PASSWORD", "STATEMENT", "PERSIST"])
        || has_word(tokens, &CLOCKS)
        || has_word(&tokens[..tokens.len().min(1)], &["DEFAULT"])
        || changes_reading;
    if pins {
        return Class::Pin;
    }
    // SET TRANSACTION holds for the next transaction only.
    let once = has_word(&tokens[..tokens.len().min(1)], &["TRANSACTION"]);
    Class::Session(if once { Effect::Unrepeatable } else { Effect::Set })
}

/// Character sets in which a byte of a character may look like a quote or a backslash.
const AMBIGUOUS: [&[u8]; 5] = [b"BIG5", b"SJIS", b"GBK", b"CP932", b"GB18030"];

/// Functions of the server's own clock that need no parentheses.
const CLOCKS: [&str; 8] = [
    "CURRENT_TIMESTAMP",
    "CURRENT_DATE",
    "CURRENT_TIME",
    "LOCALTIME",
    "LOCALTIMESTAMP",
    "UTC_DATE",
    "UTC_TIME",
    "UTC_TIMESTAMP",
];

/// True if the variable's value cannot be read from the text: another variable, or a number for
/// modes or a character set.
fn is_set_indirectly(tokens: &[Token<'_>], variable: &[u8]) -> bool {
    let is_it = |token: &Token<'_>| match token {
        Token::Word(name) | Token::Quoted(name) => name.eq_ignore_ascii_case(variable),
        _ => false,
    };
    let is_name = |word: &[u8]| !word.iter().all(u8::is_ascii_digit);
    let is_readable = |value: &Token<'_>| match value {
        Token::Text => true,
        Token::Word(word) => variable != b"SQL_MODE" && is_name(word),
        _ => false,
    } || has_word(std::slice::from_ref(value), &["DEFAULT"]);
    tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| is_it(token))
        .any(|(place, _)| !tokens.get(place + 2).is_some_and(is_readable))
}

fn transaction(first: &[u8], rest: &[Token<'_>]) -> Class {
    let is = |word: &str| first.eq_ignore_ascii_case(word.as_bytes());
    if is_asked_for(rest, "CHAIN") {
        return Class::Session(Effect::Unrepeatable);
    }
    if is("BEGIN") {
        // BEGIN NOT ATOMIC is a block of statements.
        let plain = rest.is_empty() || has_word(rest, &["WORK"]);
        return if plain { Class::Session(Effect::Begin(Access::Any)) } else { Class::Pin };
    }
    if is("START") {
        let begins = has_word(&rest[..rest.len().min(1)], &["TRANSACTION"]);
        return if begins { Class::Session(Effect::Begin(access(rest))) } else { Class::Pin };
    }
    if is("SAVEPOINT") || is("RELEASE") || has_word(rest, &["TO"]) {
        return Class::Session(Effect::Within);
    }
    // COMMIT RELEASE closes the connection.
    if is_asked_for(rest, "RELEASE") {
        return Class::Pin;
    }
    Class::Session(Effect::End)
}

/// Access mode by the words after START TRANSACTION.
fn access(words: &[Token<'_>]) -> Access {
    if has_word(words, &["SNAPSHOT"]) {
        Access::Snapshot
    } else if has_word(words, &["ONLY"]) {
        Access::Read
    } else {
        Access::Any
    }
}

/// True if the word is there, and no NO stands directly before it.
fn is_asked_for(tokens: &[Token<'_>], word: &str) -> bool {
    (0..tokens.len()).any(|place| {
        has_word(&tokens[place..=place], &[word])
            && !has_word(&tokens[place.saturating_sub(1)..place], &["NO"])
    })
}

#[cfg(test)]
mod tests;
