//! The MySQL arbiter.
//!
//! A client logs in to the arbiter; for its connection the arbiter takes r tokens and leases one
//! authenticated connection to each of those servers. Reads go to all of them, the first complete
//! reply wins; session statements go to all; anything else to one, and the session stays there.
//!
//! | module | what |
//! |---|---|
//! | `packet`, `reply` | framing; where a reply ends |
//! | `auth`, `hello`, `login` | the connection phase |
//! | `lexer`, `classify` | what a statement is: the table of `agents/arbiter/README.md` |
//! | `hub` | authenticated connections to the servers: opened, kept, reset |
//! | `contest` | one command, several servers, one answer |
//! | `link` | one server of one session: a queue of commands, run in order |
//! | `replay` | what a server that joins later must be told |
//! | `held` | the servers of one session, at r > 1 |
//! | `solo` | the server of one session, at r = 1 |
//! | `spared` | servers that a session does without for a while |
//! | `passing` | one command, its server, its reply, at r = 1 |
//! | `terms` | how a session begins, where a command goes, what became of it |
//! | `unwanted` | a command whose client is gone: stopped |
//! | `client` | a client's connection |

pub mod auth;
pub mod classify;
pub mod client;
mod contest;
mod held;
pub mod hello;
pub mod hub;
mod lexer;
mod link;
mod login;
pub mod packet;
mod passing;
mod replay;
pub mod reply;
mod solo;
mod spared;
mod terms;
mod unwanted;
