//! What tests, the soak and the benchmark share: servers that misbehave, clients that check what
//! they get or measure when they get it. Nothing here uses the arbiter's own code, so that an error
//! of its parser is not repeated by its judge.
//!
//! | module | what |
//! |---|---|
//! | `stream` | a connection read message by message |
//! | `upstream` | a small HTTP server of one manner, which remembers what it was sent |
//! | `web` | a plain HTTP client |
//! | `keyed` | requests and replies that carry a key, and a server of them that gets into trouble |
//! | `load` | clients that check every reply's key |
//! | `rude` | clients that behave badly |
//! | `soak` | minutes of load on an arbiter whose servers die and whose settings change |
//! | `rate` | a client of a fixed rate: latency from the moment a request was due |
//! | `hold` | very many idle connections |

pub mod hold;
pub mod keyed;
pub mod load;
pub mod random;
pub mod rate;
pub mod rude;
pub mod soak;
pub mod stream;
pub mod upstream;
pub mod web;
