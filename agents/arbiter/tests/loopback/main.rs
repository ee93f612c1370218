//! The arbiter in front of real servers on loopback: one program, which builds sooner than one a file.

#![allow(clippy::unwrap_used)]

mod admin_tls;
mod binary;
mod checks;
mod collisions;
mod compare;
mod compare_keyvalue;
mod corpus;
mod elsewhere;
mod hedge;
mod http;
mod http_framing;
mod interim;
mod limits;
mod memcached;
mod meter;
mod mysql;
mod mysql_gone;
mod mysql_late;
mod mysql_primary;
mod mysql_protocol;
mod mysql_session;
mod mysql_tokens;
mod mysql_writer;
mod observed;
mod policies;
mod probes;
mod reads_and_writes;
mod redis;
mod redis_limits;
mod redis_overload;
mod redis_own_writes;
mod redis_pinned;
mod redis_primary;
mod reuse;
mod rfc;
mod scarce;
mod servers;
mod slow;
mod streams;
mod support;
mod tcp;
mod trace;
mod trouble;
