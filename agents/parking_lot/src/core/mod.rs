//! Decisions, without clock, sockets or runtime: times are arguments, in seconds.

pub mod call;
pub mod phi;
pub mod recent;
pub mod rounds;

/// A server as the naming service knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// The address that it is asked at.
    pub address: String,
    /// Number of its registration: a server that was started again is another one.
    pub incarnation: i64,
}

#[cfg(test)]
pub(crate) fn server(name: &str, incarnation: i64) -> Server {
    Server { name: name.into(), address: format!("{name}:1"), incarnation }
}
