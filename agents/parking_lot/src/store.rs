//! The lots' state in MariaDB. A change is done once for each request number, in one transaction,
//! which is one statement: a server that freezes meanwhile leaves no lock for others to wait for. A
//! client whose reply was lost sends the request again, to whichever server, and is told what was
//! replied the first time.
//!
//! One row a client is enough for that, its newest change: a client has one invocation under way at
//! a time, and its numbers grow, so that nobody waits for the reply of an older number any more. A
//! copy of one may come yet, from a server that was frozen meanwhile: it is refused, and changes
//! nothing.
//!
//! Each change that is made is a row of the ledger, in the same transaction: no key keeps a second
//! one out, so one that was made twice is there twice (`audit`).

use mysql_async::prelude::Queryable;
use mysql_async::{Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts};

/// The tables, made at every server's start; doing it again changes nothing.
const SCHEMA: [&str; 4] = [
    "CREATE TABLE IF NOT EXISTS lots (id INT PRIMARY KEY, level_min INT NOT NULL, \
     level_max INT NOT NULL, places INT NOT NULL) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS cars (client INT PRIMARY KEY, lot INT NOT NULL, \
     level INT NOT NULL) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS newest (client INT PRIMARY KEY, number BIGINT NOT NULL, \
     reply VARCHAR(200) NOT NULL) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS ledger (id BIGINT AUTO_INCREMENT PRIMARY KEY, \
     client INT NOT NULL, number BIGINT NOT NULL, what VARCHAR(5) NOT NULL, lot INT NOT NULL, \
     KEY (client)) ENGINE=InnoDB",
];
/// Number, lowest level, highest level, places: four lots, as in the paper.
pub const LOTS: [(i32, i32, i32, i32); 4] =
    [(1, 0, 3, 100), (2, 0, 3, 100), (3, 1, 4, 100), (4, 1, 4, 100)];

/// Connections of a server.
const CONNECTIONS_MAX: usize = 8;
/// Number of a client that has made no change yet: below every other.
const BEFORE_ALL: i64 = -1;
/// Transactions that wait for each other may be undone by the database, a few times in a row.
const ATTEMPTS_MAX: usize = 5;
const DEADLOCK: u16 = 1213;

/// A request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request {
    /// The caller.
    pub client: i32,
    /// Number of the request.
    pub number: i64,
}

/// The change of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The client's car comes into this lot; the reply is empty, or the lots that have room where
    /// this one has none.
    Enter(i32),
    /// The car leaves.
    Exit,
    /// It goes up or down a level, if there is one; the reply is its level.
    Move(i32),
}

/// Reasons for a request without an answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database's.
    #[error("the database: {0}")]
    Database(#[from] mysql_async::Error),
    /// The client's car is where the request does not expect it.
    #[error("expected the client's car {expected}, it is not")]
    Car {
        /// The place where it was expected.
        expected: &'static str,
    },
    /// The client has had a change of a later number made: nobody waits for this one.
    #[error("expected a request number from {newest} on (got {got})")]
    Old {
        /// The later one.
        newest: i64,
        /// Number of the request.
        got: i64,
    },
    /// A lot that does not exist.
    #[error("expected the number of a lot (got {0})")]
    Lot(i32),
    /// A recorded reply cannot be read.
    #[error("expected a recorded reply (got {0:?})")]
    Recorded(String),
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The caller, and the request's number.
    pub request: Request,
    /// `enter`, `exit`, `up` or `down`.
    pub what: String,
    /// The lot.
    pub lot: i32,
}

/// The ledger's rows and the cars of some clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Booked {
    /// Changes in their order.
    pub rows: Vec<Row>,
    /// Client, lot and level of each car that is inside.
    pub cars: Vec<(i32, i32, i32)>,
}

/// Connections to the database.
#[derive(Debug, Clone)]
pub struct Store {
    pool: Pool,
}

impl Store {
    /// Opens `mysql://USER:PASSWORD@HOST:PORT/NAME`, and makes its tables.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        // A server that others fail over to has all of them at once, and opens none first.
        let limits = PoolConstraints::new(CONNECTIONS_MAX, CONNECTIONS_MAX).unwrap_or_default();
        let options =
            OptsBuilder::from_opts(Opts::from_url(url).map_err(mysql_async::Error::from)?)
                .pool_opts(PoolOpts::default().with_constraints(limits))
                .tcp_nodelay(true)
                .prefer_socket(false);
        let store = Self { pool: Pool::new(options) };
        let mut connection = store.pool.get_conn().await?;
        for statement in SCHEMA {
            connection.query_drop(statement).await?;
        }
        let insert = "INSERT IGNORE INTO lots VALUES (?, ?, ?, ?)";
        connection.exec_batch(insert, LOTS).await?;
        let mut opened = vec![connection];
        while opened.len() < CONNECTIONS_MAX {
            opened.push(store.pool.get_conn().await?);
        }
        Ok(store)
    }

    /// Makes a change, or returns the reply of the time when it was made.
    ///
    /// # Errors
    /// The database's, and those of the request; then nothing was changed.
    pub async fn once(&self, request: Request, change: Change) -> Result<Vec<i32>, StoreError> {
        let mut attempt = 1;
        loop {
            match self.attempt(request, change).await {
                Err(StoreError::Database(mysql_async::Error::Server(error)))
                    if error.code == DEADLOCK && attempt < ATTEMPTS_MAX =>
                {
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    async fn attempt(&self, request: Request, change: Change) -> Result<Vec<i32>, StoreError> {
        let mut connection = self.pool.get_conn().await?;
        let row: Option<(i64, Option<String>, Option<String>)> =
            connection.query_first(transaction(request, change)).await?;
        let (newest, reply, refusal) = row.unwrap_or_default();
        let got = request.number;
        match (refusal.as_deref(), change) {
            _ if newest > got => Err(StoreError::Old { newest, got }),
            (Some("lot"), Change::Enter(lot)) => Err(StoreError::Lot(lot)),
            (Some("inside"), _) => Err(StoreError::Car { expected: "outside" }),
            (Some(_), _) => Err(StoreError::Car { expected: "parked" }),
            (None, _) => {
                let reply = reply.unwrap_or_default();
                serde_json::from_str(&reply).map_err(|_| StoreError::Recorded(reply))
            }
        }
    }

    /// The changes that were made of these clients, in order, and where their cars are.
    pub async fn booked(&self, clients: &[i32]) -> Result<Booked, StoreError> {
        let mut bookings = Booked::default();
        let mut connection = self.pool.get_conn().await?;
        for client in clients {
            let rows = "SELECT client, number, what, lot FROM ledger WHERE client = ? ORDER BY id";
            let entries: Vec<(i32, i64, String, i32)> = connection.exec(rows, (client,)).await?;
            bookings.rows.extend(entries.into_iter().map(|(client, number, what, lot)| Row {
                request: Request { client, number },
                what,
                lot,
            }));
            let car = "SELECT client, lot, level FROM cars WHERE client = ?";
            bookings.cars.extend(connection.exec::<(i32, i32, i32), _, _>(car, (client,)).await?);
        }
        Ok(bookings)
    }

    /// The lots' numbers.
    pub async fn lots(&self) -> Result<Vec<i32>, StoreError> {
        let mut connection = self.pool.get_conn().await?;
        Ok(connection.query("SELECT id FROM lots ORDER BY id").await?)
    }

    /// Lists the other lots that have room.
    pub async fn lots_with_room(&self, lot: i32) -> Result<Vec<i32>, StoreError> {
        with_room(&mut self.pool.get_conn().await?, lot).await
    }

    /// The level of the client's car.
    pub async fn level(&self, client: i32) -> Result<i32, StoreError> {
        let mut connection = self.pool.get_conn().await?;
        level(&mut connection, client).await
    }

    /// The lowest and the highest level of the lot where the client's car is.
    pub async fn levels(&self, client: i32) -> Result<(i32, i32), StoreError> {
        let mut connection = self.pool.get_conn().await?;
        let levels = connection
            .exec_first(
                "SELECT level_min, level_max FROM lots JOIN cars ON lot = id WHERE client = ?",
                (client,),
            )
            .await?;
        levels.ok_or(StoreError::Car { expected: "parked" })
    }
}

/// The statement of a change: it returns the client's newest number and reply, or the refusal.
fn transaction(request: Request, change: Change) -> String {
    let Request { client, number } = request;
    let change = statements(request, change);
    // The first statement takes the row's lock, whether it is there or not: of two copies one waits.
    format!(
        "BEGIN NOT ATOMIC
           DECLARE newest_number, lowest, room, reached BIGINT;
           DECLARE said, refused VARCHAR(200);
           DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
           START TRANSACTION;
           INSERT INTO newest VALUES ({client}, {BEFORE_ALL}, '')
             ON DUPLICATE KEY UPDATE reply = reply;
           SELECT number, reply INTO newest_number, said FROM newest
             WHERE client = {client} FOR UPDATE;
           IF newest_number < {number} THEN
             {change}
             SET newest_number = {number};
             UPDATE newest SET number = {number}, reply = said WHERE client = {client};
           END IF;
           IF refused IS NULL THEN COMMIT; ELSE ROLLBACK; END IF;
           SELECT newest_number, said, refused;
         END"
    )
}

/// The SQL that sets `said`, or `refused` to the car's place instead: inside, outside, or no lot.
fn statements(request: Request, change: Change) -> String {
    let client = request.client;
    match change {
        Change::Enter(lot) => format!(
            "SELECT level_min, places INTO lowest, room FROM lots WHERE id = {lot} FOR UPDATE;
             IF lowest IS NULL THEN SET refused = 'lot';
             ELSEIF (SELECT COUNT(*) FROM cars WHERE lot = {lot}) >= room THEN
               SELECT CONCAT('[', COALESCE(GROUP_CONCAT(id ORDER BY id), ''), ']') INTO said
                 FROM lots WHERE id <> {lot}
                 AND places > (SELECT COUNT(*) FROM cars WHERE lot = id);
             ELSEIF EXISTS (SELECT * FROM cars WHERE client = {client}) THEN
               SET refused = 'inside';
             ELSE
               INSERT INTO cars VALUES ({client}, {lot}, lowest);
               {}
               SET said = '[]';
             END IF;",
            booked(request, "enter")
        ),
        Change::Exit => format!(
            "IF NOT EXISTS (SELECT * FROM cars WHERE client = {client}) THEN
               SET refused = 'outside';
             ELSE
               {}
               DELETE FROM cars WHERE client = {client};
               SET said = '[]';
             END IF;",
            booked(request, "exit")
        ),
        Change::Move(by) => format!(
            "UPDATE cars JOIN lots ON lot = id
               SET level = GREATEST(level_min, LEAST(level_max, level + {by}))
               WHERE client = {client};
             SELECT level INTO reached FROM cars WHERE client = {client};
             IF reached IS NULL THEN SET refused = 'outside';
             ELSE
               {}
               SET said = CONCAT('[', reached, ']');
             END IF;",
            booked(request, if by > 0 { "up" } else { "down" })
        ),
    }
}

/// A row of the ledger, while the client's car is inside.
fn booked(request: Request, what: &str) -> String {
    let Request { client, number } = request;
    format!(
        "INSERT INTO ledger (client, number, what, lot)
           SELECT client, {number}, '{what}', lot FROM cars WHERE client = {client};"
    )
}

async fn with_room(connection: &mut impl Queryable, lot: i32) -> Result<Vec<i32>, StoreError> {
    Ok(connection
        .exec(
            "SELECT id FROM lots WHERE id <> ? AND \
             places > (SELECT COUNT(*) FROM cars WHERE lot = id) ORDER BY id",
            (lot,),
        )
        .await?)
}

async fn level(connection: &mut impl Queryable, client: i32) -> Result<i32, StoreError> {
    let level = connection.exec_first("SELECT level FROM cars WHERE client = ?", (client,)).await?;
    level.ok_or(StoreError::Car { expected: "parked" })
}
