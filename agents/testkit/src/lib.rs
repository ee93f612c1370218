//! Shared parts of tests, soak and benchmark: faulty servers, clients that check what
//! they get or measure when they get it. Nothing here uses the arbiter's own code, so that an error
//! of its parser is not repeated by its judge.
//!
//! | module | what |
//! |---|---|
//! | `stream` | a connection read message by message |
//! | `upstream` | a small HTTP server of one behaviour, which remembers what it was sent |
//! | `wait` | waiting for a state of real programs |
//! | `web` | a plain HTTP client |
//! | `keyed` | requests and replies that carry a key, and a faulty server of them |
//! | `load` | clients that check every reply's key |
//! | `misuse` | clients that misuse the protocol |
//! | `slow` | clients that are slow |
//! | `mariadb` | real MariaDB servers |
//! | `mtls` | certificates of an authority of its own, and clients that trust it |
//! | `soak` | minutes of load on an arbiter whose servers die and whose settings change |
//! | `rate` | a client of a fixed rate: latency from the moment a request was due |
//! | `hold` | very many idle connections |
//! | `scripted` | an HTTP server that answers each request when a script says |

pub mod hold;
pub mod keyed;
pub mod load;
pub mod mariadb;
pub mod misuse;
pub mod mtls;
pub mod random;
pub mod rate;
pub mod scripted;
pub mod slow;
pub mod soak;
pub mod stream;
pub mod upstream;
pub mod wait;
pub mod web;
