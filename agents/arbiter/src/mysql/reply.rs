//! The end of the reply to a command, followed packet by packet.

use super::packet::{Fields, PAYLOAD_MAX};

const IN_TRANSACTION: u16 = 0x0001;
/// Status flag: each statement is its own transaction.
pub const AUTOCOMMIT: u16 = 0x0002;
const MORE_RESULTS: u64 = 0x0008;
const CURSOR_EXISTS: u64 = 0x0040;
/// Status flag: sql_mode has NO_BACKSLASH_ESCAPES.
pub const NO_BACKSLASH_ESCAPES: u16 = 0x0200;
const IN_READ_ONLY_TRANSACTION: u16 = 0x2000;
const ANSI_QUOTES: u16 = 0x8000;
/// Status flags of the session; the others are of one statement.
const LASTING: u16 =
    IN_TRANSACTION | AUTOCOMMIT | NO_BACKSLASH_ESCAPES | IN_READ_ONLY_TRANSACTION | ANSI_QUOTES;

/// Form of a command's reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// None (COM_STMT_CLOSE, COM_STMT_SEND_LONG_DATA).
    Nothing,
    /// One packet of any kind.
    Single,
    /// OK, ERR or result sets, one after the other (COM_QUERY, COM_STMT_EXECUTE).
    Results,
    /// Definitions or rows up to an EOF (COM_FIELD_LIST, COM_STMT_FETCH).
    Rows,
    /// A statement's number, then definitions of parameters and columns (COM_STMT_PREPARE).
    Prepared,
}

/// The end of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Success.
    Good,
    /// An ERR packet.
    Error(SqlError),
    /// A violation of the protocol.
    Broken,
}

/// An error that a server replied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqlError {
    /// Its number.
    pub code: u16,
    /// Its SQL state.
    pub state: [u8; 5],
}

impl SqlError {
    /// True if the error is of the server's making: disk, memory, tables, threads, network or
    /// shutdown. Others (syntax, access, values, locks, a read-only server, a client's time limit)
    /// are no observation of the server.
    pub fn is_of_the_server(self) -> bool {
        // Below 1,000 are those of the system below the server.
        self.code < 1_000 || self.state.starts_with(b"08") || SERVER_ERRORS.contains(&self.code)
    }
}

/// Errors of the server's making; those of network and shutdown have state 08.
const SERVER_ERRORS: [u16; 23] = [
    1016, // ER_CANT_OPEN_FILE
    1021, // ER_DISK_FULL
    1024, // ER_ERROR_ON_READ
    1026, // ER_ERROR_ON_WRITE
    1030, // ER_GET_ERRNO: of the storage engine
    1033, // ER_NOT_FORM_FILE
    1034, // ER_NOT_KEYFILE
    1035, // ER_OLD_KEYFILE
    1037, // ER_OUTOFMEMORY
    1041, // ER_OUT_OF_RESOURCES
    1047, // ER_UNKNOWN_COM_ERROR: of a Galera node that is not ready
    1114, // ER_RECORD_FILE_FULL
    1135, // ER_CANT_CREATE_THREAD
    1180, // ER_ERROR_DURING_COMMIT
    1181, // ER_ERROR_DURING_ROLLBACK
    1194, // ER_CRASHED_ON_USAGE
    1195, // ER_CRASHED_ON_REPAIR
    1296, // ER_GET_ERRMSG: of the storage engine
    1297, // ER_GET_TEMPORARY_ERRMSG
    1712, // ER_INDEX_CORRUPT
    1815, // ER_INTERNAL_ERROR
    1877, // ER_TABLE_CORRUPT
    1932, // ER_NO_SUCH_TABLE_IN_ENGINE
];

/// Follows one reply to its end.
#[derive(Debug)]
pub struct Follow {
    state: State,
    continued: bool,
    /// Status at the end of the reply.
    status: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Single,
    Head,
    /// Column definitions to come, then an EOF, then rows.
    Columns(u64),
    Rows,
    Prepared,
    /// Definitions and EOFs of a prepared statement to come.
    Definitions(u64),
}

impl Follow {
    /// Starts a reply; none for a command without one.
    pub fn new(shape: Shape) -> Option<Self> {
        let state = match shape {
            Shape::Nothing => return None,
            Shape::Single => State::Single,
            Shape::Results => State::Head,
            Shape::Rows => State::Rows,
            Shape::Prepared => State::Prepared,
        };
        Some(Self { state, continued: false, status: None })
    }

    /// Session status at the server; none if the reply has none.
    pub fn status(&self) -> Option<u16> {
        Some(self.status? as u16 & LASTING)
    }

    /// Takes the next packet's payload; returns the end of the reply if it was the last.
    pub fn packet(&mut self, payload: &[u8]) -> Option<End> {
        let continues = payload.len() == PAYLOAD_MAX;
        if std::mem::replace(&mut self.continued, continues) {
            return None;
        }
        if payload.first() == Some(&0xff) {
            return Some(error(payload));
        }
        self.step(payload).unwrap_or(Some(End::Broken))
    }

    /// Takes a payload; the outer none is a violation of the protocol.
    fn step(&mut self, payload: &[u8]) -> Option<Option<End>> {
        let first = *payload.first()?;
        let is_eof = first == 0xfe && payload.len() < 9;
        match self.state {
            State::Single => Some(Some(End::Good)),
            State::Head => self.head(first, payload),
            State::Columns(0) => {
                let status = is_eof.then(|| eof_status(payload))??;
                self.state = State::Rows;
                self.status = Some(status);
                // With a cursor the rows come by COM_STMT_FETCH.
                Some((status & CURSOR_EXISTS != 0).then_some(End::Good))
            }
            State::Columns(left) => {
                self.state = State::Columns(left - 1);
                Some(None)
            }
            State::Rows if is_eof => self.end_of_result(eof_status(payload)?),
            State::Rows => Some(None),
            State::Prepared => self.prepared(payload),
            State::Definitions(left) => {
                self.state = State::Definitions(left - 1);
                Some((left == 1).then_some(End::Good))
            }
        }
    }

    fn head(&mut self, first: u8, payload: &[u8]) -> Option<Option<End>> {
        match first {
            0 => self.end_of_result(status_of_ok(payload)?),
            // LOCAL INFILE, which was not offered to the server.
            0xfb => None,
            _ => {
                self.state = State::Columns(Fields(payload).lenenc()?);
                Some(None)
            }
        }
    }

    fn end_of_result(&mut self, status: u64) -> Option<Option<End>> {
        self.status = Some(status);
        if status & MORE_RESULTS == 0 {
            return Some(Some(End::Good));
        }
        self.state = State::Head;
        Some(None)
    }

    fn prepared(&mut self, payload: &[u8]) -> Option<Option<End>> {
        let mut fields = Fields(payload);
        fields.bytes(5)?;
        let (columns, parameters) = (fields.integer(2)?, fields.integer(2)?);
        // Each list that is not empty ends with an EOF.
        let packets = |count: u64| if count == 0 { 0 } else { count + 1 };
        match packets(columns) + packets(parameters) {
            0 => Some(Some(End::Good)),
            due => {
                self.state = State::Definitions(due);
                Some(None)
            }
        }
    }
}

fn status_of_ok(payload: &[u8]) -> Option<u64> {
    let mut fields = Fields(payload);
    fields.bytes(1)?;
    fields.lenenc()?;
    fields.lenenc()?;
    fields.integer(2)
}

/// The server status in an OK packet; 0 where it is cut short.
pub fn ok_status(payload: &[u8]) -> u64 {
    status_of_ok(payload).unwrap_or(0)
}

fn eof_status(payload: &[u8]) -> Option<u64> {
    let mut fields = Fields(payload);
    fields.bytes(3)?;
    fields.integer(2)
}

fn error(payload: &[u8]) -> End {
    let mut fields = Fields(payload);
    let code = fields.bytes(1).and(fields.integer(2)).unwrap_or(0);
    let state = fields.bytes(1).filter(|marker| *marker == b"#");
    let state = state.and(fields.bytes(5)).and_then(|state| state.try_into().ok());
    End::Error(SqlError { code: code as u16, state: state.unwrap_or(*b"HY000") })
}

/// True if a transaction is open where the status is this.
pub fn is_in_transaction(status: u16) -> bool {
    status & IN_TRANSACTION != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const EOF: &[u8] = &[0xfe, 0, 0, 2, 0];
    const EOF_MORE: &[u8] = &[0xfe, 0, 0, 0x0a, 0];
    const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
    const ERROR: &[u8] = b"\xff\x28\x04#42000no";

    fn follow(shape: Shape, packets: &[&[u8]]) -> Vec<Option<End>> {
        let mut follow = Follow::new(shape).unwrap();
        packets.iter().map(|packet| follow.packet(packet)).collect()
    }

    fn last(shape: Shape, packets: &[&[u8]]) -> Option<End> {
        let mut ends = follow(shape, packets);
        let last = ends.pop().unwrap();
        assert!(ends.iter().all(Option::is_none), "ended early: {ends:?}");
        last
    }

    #[test]
    fn results_end_with_ok_err_or_the_last_eof() {
        assert_eq!(last(Shape::Results, &[OK]), Some(End::Good));
        let error = End::Error(SqlError { code: 1064, state: *b"42000" });
        assert_eq!(last(Shape::Results, &[ERROR]), Some(error.clone()));
        let rows = [&b"\x01"[..], b"column", EOF, b"\x01a", b"\x00", EOF];
        assert_eq!(last(Shape::Results, &rows), Some(End::Good));
        assert_eq!(last(Shape::Results, &rows[..5]), None);
        let broken_off = [&b"\x01"[..], b"column", EOF, b"\x01a", ERROR];
        assert_eq!(last(Shape::Results, &broken_off), Some(error));
    }

    #[test]
    fn an_error_is_the_server_s_only_where_it_is_known_to_be() {
        let is_server_s = |code, state: &[u8; 5]| {
            let state = *state;
            SqlError { code, state }.is_of_the_server()
        };
        for (code, state) in [
            (1064, b"42000"),
            (1205, b"HY000"),
            (1290, b"HY000"),
            (1317, b"70100"),
            (1366, b"HY000"),
            (1792, b"25006"),
            (1836, b"HY000"),
            (1969, b"70100"),
            (3024, b"HY000"),
        ] {
            assert!(!is_server_s(code, state), "{code}");
        }
        for (code, state) in
            [(28, b"HY000"), (1021, b"HY000"), (1053, b"08S01"), (1040, b"08004"), (1815, b"HY000")]
        {
            assert!(is_server_s(code, state), "{code}");
        }
    }

    #[test]
    fn the_end_of_a_reply_says_the_session_s_status() {
        let status_of = |shape, packets: &[&[u8]]| {
            let mut follow = Follow::new(shape).unwrap();
            packets.iter().for_each(|packet| {
                follow.packet(packet);
            });
            follow.status()
        };
        // The statement used no index: that is not the session's.
        let begun: &[u8] = &[0, 0, 0, 0x23, 0, 0, 0];
        let status = status_of(Shape::Results, &[begun]);
        assert_eq!(status, Some(IN_TRANSACTION | AUTOCOMMIT));
        assert!(status.is_some_and(is_in_transaction));
        assert_eq!(status_of(Shape::Results, &[OK]), Some(AUTOCOMMIT));
        assert!(!is_in_transaction(AUTOCOMMIT));
        let eof_within: &[u8] = &[0xfe, 0, 0, 1, 0x22];
        let rows = [&b"\x01"[..], b"column", EOF, b"\x01a", eof_within];
        let status = IN_TRANSACTION | NO_BACKSLASH_ESCAPES | IN_READ_ONLY_TRANSACTION;
        assert_eq!(status_of(Shape::Results, &rows), Some(status));
        assert_eq!(status_of(Shape::Results, &[ERROR]), None);
    }

    #[test]
    fn several_results_are_one_reply() {
        let two = [&b"\x01"[..], b"column", EOF, b"\x01a", EOF_MORE, OK];
        assert_eq!(last(Shape::Results, &two), Some(End::Good));
    }

    #[test]
    fn a_row_longer_than_a_packet_is_not_mistaken_for_an_end() {
        let mut long = vec![b'x'; PAYLOAD_MAX];
        long[0] = 0xfd;
        let packets = [&b"\x01"[..], b"column", EOF, &long, EOF, b"\x01a", EOF];
        assert_eq!(last(Shape::Results, &packets), Some(End::Good));
    }

    #[test]
    fn a_prepared_statement_ends_after_its_definitions() {
        let none = b"\0\x01\0\0\0\0\0\0\0\0\0\0";
        assert_eq!(last(Shape::Prepared, &[none]), Some(End::Good));
        let both = b"\0\x01\0\0\0\x01\0\x02\0\0\0\0";
        let packets = [&both[..], b"p", b"p", EOF, b"c", EOF];
        assert_eq!(last(Shape::Prepared, &packets), Some(End::Good));
    }

    #[test]
    fn an_empty_packet_or_local_infile_is_broken() {
        assert_eq!(last(Shape::Results, &[b""]), Some(End::Broken));
        assert_eq!(last(Shape::Results, &[b"\xfbfile"]), Some(End::Broken));
    }
}
