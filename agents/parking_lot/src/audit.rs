//! Holds the records of what clients were told against the ledger and the cars.
//!
//! The ledger has a row for each change that was made, so it shows a change that was made twice,
//! one that was promised and is not there, and one that nobody asked for. The cars must be where
//! the ledger's rows leave them.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::client::calls::Method;
use crate::store::{Booked, Request, Row, Store, LOTS};

/// A record, as far as it is needed here.
#[derive(Debug, Clone, Deserialize)]
pub struct Invocation {
    id: i32,
    number: i64,
    method: Method,
    outcome: String,
}

/// Differences; all but the first are 0 where each change was made once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Changes that were reported to clients.
    pub changes: usize,
    /// Requests whose change was made more than once.
    pub twice: usize,
    /// Changes that were reported to a client and not made.
    pub missing: usize,
    /// Changes that were made and not requested.
    pub unasked: usize,
    /// Clients whose car is not where their changes leave it.
    pub astray: usize,
}

/// Audits the records of a program of clients that has ended.
pub async fn audit(database: &str, records: &Path) -> Result<Findings> {
    let text = std::fs::read_to_string(records)
        .with_context(|| format!("cannot read {}", records.display()))?;
    let lines: Result<Vec<Invocation>, _> = text.lines().map(serde_json::from_str).collect();
    let invocations = lines.with_context(|| format!("{}: expected records", records.display()))?;
    let store = Store::open(database).await?;
    let bookings = store.booked(&clients(&invocations)).await?;
    Ok(findings(&invocations, &bookings))
}

fn clients(invocations: &[Invocation]) -> Vec<i32> {
    let mut ids: Vec<i32> = invocations.iter().map(|invocation| invocation.id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Differences between the records and the database.
pub fn findings(invocations: &[Invocation], booked: &Booked) -> Findings {
    let mut counts: HashMap<Request, usize> = HashMap::new();
    for row in &booked.rows {
        *counts.entry(row.request).or_default() += 1;
    }
    let twice = counts.values().filter(|count| **count > 1).count();
    let mut result = Findings { twice, ..Findings::default() };
    for invocation in invocations.iter().filter(|invocation| !invocation.method.is_read()) {
        let request = Request { client: invocation.id, number: invocation.number };
        let is_made = counts.remove(&request).is_some();
        // Of a call that was given up or went wrong the client knows nothing: made or not.
        if invocation.outcome == "ok" {
            result.changes += 1;
            result.missing += usize::from(!is_made);
        }
    }
    result.unasked = counts.len();
    result.astray = clients(invocations)
        .iter()
        .filter(|client| car_of(**client, booked) != left_by(**client, &booked.rows))
        .count();
    result
}

/// Lot and level of the client's car.
fn car_of(client: i32, booked: &Booked) -> Option<(i32, i32)> {
    let own = booked.cars.iter().find(|(of, _, _)| *of == client)?;
    Some((own.1, own.2))
}

/// Lot and level of the client's car after the changes that were made.
fn left_by(client: i32, rows: &[Row]) -> Option<(i32, i32)> {
    let mut car = None;
    for row in rows.iter().filter(|row| row.request.client == client) {
        let (_, lowest, highest, _) = LOTS.into_iter().find(|lot| lot.0 == row.lot)?;
        let shift =
            |by: i32| move |(lot, level): (i32, i32)| (lot, (level + by).clamp(lowest, highest));
        car = match row.what.as_str() {
            "enter" => Some((row.lot, lowest)),
            "up" => car.map(shift(1)),
            "down" => car.map(shift(-1)),
            _ => None,
        };
    }
    car
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: i32 = 7;

    fn invocation(number: i64, method: Method, outcome: &str) -> Invocation {
        Invocation { id: CLIENT, number, method, outcome: outcome.to_owned() }
    }

    fn row(number: i64, what: &str) -> Row {
        Row { request: Request { client: CLIENT, number }, what: what.to_owned(), lot: 3 }
    }

    /// A car that entered lot 3, went up and down again, and left.
    fn sound() -> (Vec<Invocation>, Booked) {
        let methods = [
            Method::EnterLot,
            Method::MoveUpLevel,
            Method::GetLots,
            Method::MoveDownLevel,
            Method::ExitLot,
        ];
        let invocations =
            (0..).zip(methods).map(|(number, method)| invocation(number, method, "ok"));
        let rows = [(0, "enter"), (1, "up"), (3, "down"), (4, "exit")];
        let rows = rows.iter().map(|(number, what)| row(*number, what)).collect();
        (invocations.collect(), Booked { rows, cars: Vec::new() })
    }

    #[test]
    fn changes_that_were_made_once_leave_nothing_to_say() {
        let (invocations, booked) = sound();
        let expected = Findings { changes: 4, ..Findings::default() };
        assert_eq!(findings(&invocations, &booked), expected);
    }

    #[test]
    fn an_exit_that_was_made_twice_is_seen() {
        let (invocations, mut booked) = sound();
        booked.rows.push(row(4, "exit"));
        assert_eq!(findings(&invocations, &booked).twice, 1);
    }

    #[test]
    fn a_change_that_was_promised_and_not_made_is_seen() {
        let (invocations, mut booked) = sound();
        booked.rows.pop();
        booked.cars.push((CLIENT, 3, 1));
        let result = findings(&invocations, &booked);
        assert_eq!((result.missing, result.astray), (1, 0));
    }

    #[test]
    fn a_change_that_nobody_asked_for_is_seen() {
        let (invocations, mut booked) = sound();
        booked.rows.push(row(2, "enter")); // number 2 was a read
        booked.cars.push((CLIENT, 3, 1));
        assert_eq!(findings(&invocations, &booked).unasked, 1);
    }

    #[test]
    fn a_car_that_is_not_where_the_changes_leave_it_is_seen() {
        for cars in [vec![], vec![(CLIENT, 3, 1)], vec![(CLIENT, 1, 2)]] {
            let (mut invocations, mut booked) = sound();
            invocations.truncate(3);
            booked.rows.truncate(2);
            booked.cars = cars;
            assert_eq!(findings(&invocations, &booked).astray, 1);
            booked.cars = vec![(CLIENT, 3, 2)];
            assert_eq!(findings(&invocations, &booked).astray, 0);
        }
    }

    #[test]
    fn a_call_that_was_given_up_may_have_been_made_or_not() {
        let (mut invocations, booked) = sound();
        invocations[4] = invocation(4, Method::ExitLot, "gave_up");
        let expected = Findings { changes: 3, ..Findings::default() };
        assert_eq!(findings(&invocations, &booked), expected);
    }
}
