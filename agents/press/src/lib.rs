//! PRESS: nodes that behave as one HTTP server and share their memories (Carrera and Bianchini;
//! Broadwell 2004, section 3.1). `README.md` has the protocol; begin with `core/node.rs`.
//!
//! | module | content |
//! |---|---|
//! | `core` | the protocol, without clock, sockets or disk |
//! | `codec` | its messages as bytes |
//! | `engine` | the node in its process |
//! | `peers`, `clients`, `admin` | connections of nodes, users and operators |
//! | `http`, `page_key` | requests and replies; keys of pages |
//! | `config`, `server` | the program |

pub mod admin;
pub mod clients;
pub mod codec;
pub mod config;
pub mod core;
pub mod engine;
pub mod http;
pub mod page_key;
pub mod peers;
pub mod server;
