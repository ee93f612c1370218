//! A client's prepared statements: their numbers, and their targets.
//!
//! Every server of the session prepares each statement with its own number; the client gets a
//! number of the arbiter's. A client sends the types of a statement's parameters once, and a server
//! remembers them from its last execution. Not every server executes each time, so the arbiter
//! sends them each time.

use std::collections::HashMap;

use super::classify::Does;
use super::packet::{Fields, Packet, PAYLOAD_MAX};
use super::types::Route;

/// Maximum statements of a client: the default of a whole server.
const STATEMENTS_MAX: usize = 16_382;
/// Number of the statement that was prepared last (MariaDB).
const LAST: u32 = u32::MAX;
/// Head of COM_STMT_EXECUTE: command, number, flags, count.
const EXECUTE_HEAD: usize = 1 + 4 + 1 + 4;

/// Open prepared statements of a client.
#[derive(Debug, Default)]
pub struct Statements {
    open: HashMap<u32, Prepared>,
    last: u32,
}

#[derive(Debug)]
struct Prepared {
    /// Route of its executions.
    route: Route,
    does: Does,
    /// Packet that replaces an execution: the text of a session statement.
    instead: Option<Packet>,
    parameters: usize,
    /// Two bytes for each parameter, as the client sent them last.
    types: Vec<u8>,
}

impl Statements {
    /// Assigns a number to a statement; none if there are too many. A session statement (`BEGIN`,
    /// say) is executed as text, so that it can be repeated at another server.
    pub fn add(&mut self, route: Route, does: Does, sql: &[u8]) -> Option<u32> {
        if self.open.len() >= STATEMENTS_MAX {
            return None;
        }
        self.last = self.last % (LAST - 1) + 1;
        let is_session = matches!(route, Route::Session(_));
        let prepared = Prepared {
            route,
            does,
            instead: is_session.then(|| Packet::new(0, &[b"\x03", sql].concat())),
            parameters: 0,
            types: Vec::new(),
        };
        self.open.insert(self.last, prepared);
        Some(self.last)
    }

    /// Notes the first packet of the reply to its preparation.
    pub fn prepared(&mut self, id: u32, payload: &[u8]) {
        let mut fields = Fields(payload);
        let head = (fields.integer(1), fields.bytes(4 + 2), fields.integer(2));
        match (head, self.open.get_mut(&id)) {
            ((Some(0), Some(_), Some(parameters)), Some(prepared)) => {
                prepared.parameters = parameters as usize;
            }
            _ => self.close(id),
        }
    }

    /// Frees its number.
    pub fn close(&mut self, id: u32) {
        self.open.remove(&id);
    }

    /// The statement of a command.
    pub fn named(&self, command: &Packet) -> Option<u32> {
        let number = Fields(command.payload().get(1..)?).integer(4)? as u32;
        let id = if number == LAST { self.last } else { number };
        self.open.contains_key(&id).then_some(id)
    }

    /// Effect of its execution on data.
    pub fn does(&self, id: u32) -> Does {
        self.open.get(&id).map_or(Does::Nothing, |statement| statement.does)
    }

    /// Route of an execution, and the packet that replaces the client's, if any.
    pub fn execute(&mut self, id: u32, command: &Packet) -> Option<(Route, Option<Packet>)> {
        let prepared = self.open.get_mut(&id)?;
        if prepared.instead.is_some() {
            return Some((prepared.route.clone(), prepared.instead.clone()));
        }
        let payload = command.payload();
        let has_cursor = payload.get(5).is_some_and(|flags| *flags != 0);
        let route = if has_cursor || payload.len() >= PAYLOAD_MAX {
            Route::Pin
        } else {
            prepared.route.clone()
        };
        if prepared.parameters == 0 {
            return Some((route, None));
        }
        let flag = EXECUTE_HEAD + prepared.parameters.div_ceil(8);
        let types_end = flag + 1 + 2 * prepared.parameters;
        match payload.get(flag) {
            Some(1) => {
                prepared.types = payload.get(flag + 1..types_end)?.to_vec();
                Some((route, None))
            }
            Some(0) if !prepared.types.is_empty() => {
                let parts = [&payload[..flag], &[1], &prepared.types, &payload[flag + 1..]];
                let whole = parts.concat();
                let fits = whole.len() < PAYLOAD_MAX;
                fits.then(|| (route, Some(Packet::new(0, &whole))))
            }
            // The server says what is wrong with it.
            _ => Some((route, None)),
        }
    }

    /// Forgets all statements.
    pub fn clear(&mut self) {
        self.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::classify::Effect;
    use super::*;

    const TWO_PARAMETERS: &[u8] = &[0, 9, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0];

    fn execute(id: u32, types: Option<&[u8; 4]>, values: &[u8]) -> Packet {
        let mut payload = vec![0x17];
        payload.extend_from_slice(&id.to_le_bytes());
        payload.extend_from_slice(&[0, 1, 0, 0, 0, 0]);
        payload.push(types.is_some().into());
        payload.extend_from_slice(types.map_or(&[], |types| &types[..]));
        payload.extend_from_slice(values);
        Packet::new(0, &payload)
    }

    #[test]
    fn types_that_were_said_once_are_said_each_time() {
        let mut statements = Statements::default();
        let id = statements.add(Route::Race, Does::Reads, b"").unwrap();
        statements.prepared(id, TWO_PARAMETERS);
        let first = execute(id, Some(b"\x03\0\x0f\0"), b"values");
        assert_eq!(statements.execute(id, &first), Some((Route::Race, None)));
        let second = execute(id, None, b"others");
        let (_, sent) = statements.execute(id, &second).unwrap();
        assert_eq!(sent, Some(execute(id, Some(b"\x03\0\x0f\0"), b"others")));
    }

    #[test]
    fn a_session_statement_is_executed_as_its_text() {
        let mut statements = Statements::default();
        let route = Route::Session(Effect::End);
        let id = statements.add(route.clone(), Does::Nothing, b"COMMIT").unwrap();
        let text = Packet::new(0, b"\x03COMMIT");
        let sent = statements.execute(id, &execute(id, None, b""));
        assert_eq!(sent, Some((route, Some(text))));
    }

    #[test]
    fn a_statement_is_known_until_it_is_closed_or_could_not_be_prepared() {
        let mut statements = Statements::default();
        let id = statements.add(Route::Write, Does::Writes, b"").unwrap();
        statements.prepared(id, TWO_PARAMETERS);
        let named = |statements: &Statements, id| statements.named(&execute(id, None, b""));
        assert_eq!(named(&statements, id), Some(id));
        assert_eq!(named(&statements, LAST), Some(id), "the last one");
        assert_eq!(named(&statements, id + 1), None);
        let refused = statements.add(Route::Race, Does::Reads, b"").unwrap();
        statements.prepared(refused, b"\xff\x28\x04#42000no");
        assert_eq!(named(&statements, refused), None);
        statements.close(id);
        assert_eq!(named(&statements, id), None);
    }

    #[test]
    fn a_cursor_keeps_the_session_at_its_server_and_their_number_is_bounded() {
        let mut statements = Statements::default();
        let id = statements.add(Route::Race, Does::Reads, b"").unwrap();
        let mut payload = execute(id, None, b"").payload().to_vec();
        payload[5] = 1;
        let command = Packet::new(0, &payload);
        assert_eq!(statements.execute(id, &command), Some((Route::Pin, None)));
        while statements.add(Route::Race, Does::Reads, b"").is_some() {}
        assert_eq!(statements.open.len(), STATEMENTS_MAX);
    }
}
