//! The MySQL arbiter.
//!
//! A client logs in to the arbiter; for its connection the arbiter takes r tokens and leases one
//! authenticated connection to each of those servers. Reads go to all of them, the first complete
//! reply wins; session statements go to all; anything else to one, and the session stays there.
//!
//! | module | content |
//! |---|---|
//! | `packet`, `reply` | framing; the end of a reply |
//! | `handshake`, `login` | the connection phase |
//! | `lexer`, `classify` | the class of a statement: the table of `docs/arbiter.md` |
//! | `server_pool` | authenticated connections to the servers: opened, kept, reset |
//! | `contest` | one command, several servers, one answer |
//! | `link` | one server of one session: a queue of commands, run in order |
//! | `replay` | session statements for a server that joins later |
//! | `replicated` | the servers of one session, at r > 1 |
//! | `passthrough` | the server of one session, at r = 1 |
//! | `avoid_list` | servers that a session avoids for a while |
//! | `statements` | the prepared statements of a client |
//! | `session` | the servers of a client: those it reads from, the one it writes to |
//! | `passing` | one command, its server, its reply, at r = 1 |
//! | `types` | the start of a session, the targets and results of commands |
//! | `roles` | the server that may be written to |
//! | `kill_query` | the end of a command whose client is gone |
//! | `client` | a client's connection |

mod avoid_list;
pub mod classify;
pub mod client;
mod contest;
pub mod handshake;
mod kill_query;
mod lexer;
mod link;
mod login;
pub mod packet;
mod passing;
mod passthrough;
mod replay;
mod replicated;
pub mod reply;
mod roles;
pub mod server_pool;
mod session;
mod statements;
mod types;
