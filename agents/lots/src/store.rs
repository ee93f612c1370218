//! The lots' state in MariaDB. A change is done once for each request number, in one transaction: a
//! client whose reply was lost sends the request again, to whichever server, and is told what was
//! replied the first time.
//!
//! One row a client is enough for that, its newest change: a client has one invocation under way at
//! a time, and its numbers grow, so that nobody waits for the reply of an older number any more. A
//! copy of one may come yet, from a server that was frozen meanwhile: it is refused, and changes
//! nothing.

use mysql_async::prelude::Queryable;
use mysql_async::{Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts, TxOpts};

/// What every server does at its start; doing it again changes nothing.
const SCHEMA: [&str; 4] = [
    "CREATE TABLE IF NOT EXISTS lots (id INT PRIMARY KEY, level_min INT NOT NULL, \
     level_max INT NOT NULL, places INT NOT NULL) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS cars (client INT PRIMARY KEY, lot INT NOT NULL, \
     level INT NOT NULL) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS newest (client INT PRIMARY KEY, number BIGINT NOT NULL, \
     reply VARCHAR(200) NOT NULL) ENGINE=InnoDB",
    // Four lots, as in the paper.
    "INSERT IGNORE INTO lots VALUES (1, 0, 3, 100), (2, 0, 3, 100), (3, 1, 4, 100), (4, 1, 4, 100)",
];

/// Connections of a server.
const CONNECTIONS_MAX: usize = 8;
/// Transactions that wait for each other may be undone by the database, a few times in a row.
const ATTEMPTS_MAX: usize = 5;
const DEADLOCK: u16 = 1213;

/// Which request of which client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Who asks.
    pub client: i32,
    /// Its number.
    pub number: i64,
}

/// What a request changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The client's car comes into this lot; the reply is empty, or the lots that have room where
    /// this one has none.
    Enter(i32),
    /// It leaves.
    Exit,
    /// It goes up or down a level, if there is one; the reply is its level.
    Move(i32),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database's.
    #[error("the database: {0}")]
    Database(#[from] mysql_async::Error),
    /// The client's car is where the request does not expect it.
    #[error("expected the client's car {expected}, it is not")]
    Car {
        /// Where it was expected.
        expected: &'static str,
    },
    /// The client has had a change of a later number made: nobody waits for this one.
    #[error("expected a request number from {newest} on, got {came}")]
    Old {
        /// The later one.
        newest: i64,
        /// This one.
        came: i64,
    },
    /// There is no such lot.
    #[error("expected the number of a lot, got {0}")]
    Lot(i32),
    /// A recorded reply cannot be read.
    #[error("expected a recorded reply, got {0:?}")]
    Recorded(String),
}

/// Connections to the database.
#[derive(Debug, Clone)]
pub struct Store {
    pool: Pool,
}

impl Store {
    /// At `mysql://USER:PASSWORD@HOST:PORT/NAME`, with its tables.
    ///
    /// # Errors
    /// The database's.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        let limits = PoolConstraints::new(1, CONNECTIONS_MAX).unwrap_or_default();
        let options =
            OptsBuilder::from_opts(Opts::from_url(url).map_err(mysql_async::Error::from)?)
                .pool_opts(PoolOpts::default().with_constraints(limits))
                .tcp_nodelay(true)
                .prefer_socket(false);
        let store = Self {
            pool: Pool::new(options),
        };
        let mut connection = store.pool.get_conn().await?;
        for statement in SCHEMA {
            connection.query_drop(statement).await?;
        }
        Ok(store)
    }

    /// Does a change, or finds what was replied when it was done.
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
        let Request { client, number } = request;
        let mut work = self.pool.start_transaction(TxOpts::default()).await?;
        // It takes the row's lock, whether it is there or not: of two copies one waits here.
        work.exec_drop(
            "INSERT INTO newest VALUES (?, ?, '') ON DUPLICATE KEY UPDATE reply = reply",
            (client, number),
        )
        .await?;
        if work.affected_rows() == 0 {
            let (newest, reply) = newest(&mut work, client).await?;
            if number < newest {
                let came = number;
                return Err(StoreError::Old { newest, came });
            }
            if number == newest {
                return serde_json::from_str(&reply).map_err(|_| StoreError::Recorded(reply));
            }
        }
        let reply = apply(&mut work, client, change).await?;
        let recorded = serde_json::json!(reply).to_string();
        work.exec_drop(
            "UPDATE newest SET number = ?, reply = ? WHERE client = ?",
            (number, recorded, client),
        )
        .await?;
        work.commit().await?;
        Ok(reply)
    }

    /// The lots' numbers.
    ///
    /// # Errors
    /// The database's.
    pub async fn lots(&self) -> Result<Vec<i32>, StoreError> {
        let mut connection = self.pool.get_conn().await?;
        Ok(connection.query("SELECT id FROM lots ORDER BY id").await?)
    }

    /// Lots with room, but for this one.
    ///
    /// # Errors
    /// The database's.
    pub async fn others(&self, lot: i32) -> Result<Vec<i32>, StoreError> {
        with_room(&mut self.pool.get_conn().await?, lot).await
    }

    /// The level of the client's car.
    ///
    /// # Errors
    /// The database's, and where it is not parked.
    pub async fn level(&self, client: i32) -> Result<i32, StoreError> {
        let mut connection = self.pool.get_conn().await?;
        level(&mut connection, client).await
    }

    /// The lowest and the highest level of the lot where the client's car is.
    ///
    /// # Errors
    /// The database's, and where it is not parked.
    pub async fn levels(&self, client: i32) -> Result<(i32, i32), StoreError> {
        let mut connection = self.pool.get_conn().await?;
        let found = connection
            .exec_first(
                "SELECT level_min, level_max FROM lots JOIN cars ON lot = id WHERE client = ?",
                (client,),
            )
            .await?;
        found.ok_or(StoreError::Car { expected: "parked" })
    }
}

/// The number and the reply of the client's newest change.
async fn newest(work: &mut impl Queryable, client: i32) -> Result<(i64, String), StoreError> {
    let found = work
        .exec_first(
            "SELECT number, reply FROM newest WHERE client = ? FOR UPDATE",
            (client,),
        )
        .await?;
    found.ok_or_else(|| StoreError::Recorded("nothing".to_owned()))
}

async fn apply(
    work: &mut impl Queryable,
    client: i32,
    change: Change,
) -> Result<Vec<i32>, StoreError> {
    match change {
        Change::Enter(lot) => enter(work, client, lot).await,
        Change::Exit => {
            work.exec_drop("DELETE FROM cars WHERE client = ?", (client,))
                .await?;
            Ok(Vec::new())
        }
        Change::Move(by) => {
            work.exec_drop(
                "UPDATE cars JOIN lots ON lot = id \
                 SET level = GREATEST(level_min, LEAST(level_max, level + ?)) WHERE client = ?",
                (by, client),
            )
            .await?;
            Ok(vec![level(work, client).await?])
        }
    }
}

async fn enter(work: &mut impl Queryable, client: i32, lot: i32) -> Result<Vec<i32>, StoreError> {
    let found: Option<(i32, i32)> = work
        .exec_first(
            "SELECT level_min, places FROM lots WHERE id = ? FOR UPDATE",
            (lot,),
        )
        .await?;
    let (lowest, places) = found.ok_or(StoreError::Lot(lot))?;
    let taken: Option<i32> = work
        .exec_first("SELECT COUNT(*) FROM cars WHERE lot = ?", (lot,))
        .await?;
    if taken.unwrap_or_default() >= places {
        return with_room(work, lot).await;
    }
    let parked: Option<i32> = work
        .exec_first(
            "SELECT lot FROM cars WHERE client = ? FOR UPDATE",
            (client,),
        )
        .await?;
    if parked.is_some() {
        let expected = "outside";
        return Err(StoreError::Car { expected });
    }
    work.exec_drop("INSERT INTO cars VALUES (?, ?, ?)", (client, lot, lowest))
        .await?;
    Ok(Vec::new())
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
    let found = connection
        .exec_first("SELECT level FROM cars WHERE client = ?", (client,))
        .await?;
    found.ok_or(StoreError::Car { expected: "parked" })
}
