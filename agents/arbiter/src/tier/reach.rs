//! Reachability of servers: by failed connections, by probes, and by the admin API.
//!
//! Every connection to a server is made by [`Tier::dial`]. A connection that fails because this
//! machine has no descriptor, port or memory says nothing about the server, and is tried again. A
//! late connection says nothing either while the server answers others: its queue is full because
//! many connect at once, and to treat it as dead would turn a burst into an outage.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use policy::ServerId;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout, Instant};

use super::{Choices, Tier};
use crate::stream;

/// A server to be probed until it answers.
#[derive(Debug, Clone, Copy)]
pub struct Down {
    /// The server.
    pub server: ServerId,
    /// True if the first probe is due at once, because the server is said to be back.
    pub at_once: bool,
}

/// Reason for having no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreached {
    /// The server refused it.
    Refused,
    /// The server did not accept it in time.
    Late,
    /// This machine lacks a descriptor, port or memory.
    Local,
}

/// Pause before connecting again after a lack of descriptors.
const LOCAL_PAUSE: Duration = Duration::from_millis(20);

/// True if this machine, not its peer, is the reason for an error.
fn is_local(error: &io::Error) -> bool {
    use nix::errno::Errno;
    const LOCAL: [Errno; 7] = [
        Errno::EMFILE,
        Errno::ENFILE,
        Errno::ENOMEM,
        Errno::ENOBUFS,
        Errno::EADDRNOTAVAIL,
        Errno::EAGAIN,
        Errno::EPERM,
    ];
    let code = error.raw_os_error().map(Errno::from_raw);
    code.is_some_and(|code| LOCAL.contains(&code))
}

impl Tier {
    /// Skips a server after a failed connection until a probe succeeds.
    pub fn server_failed(self: &Arc<Self>, server: ServerId) {
        self.server_counters[server].errors.inc();
        let mut was_alive = false;
        self.decide(|Choices { selector, .. }, now, grants| {
            was_alive = selector.is_alive(server);
            selector.server_down(now, server, grants);
        });
        if was_alive {
            self.probe(server, false);
        }
    }

    /// Opens a connection until `deadline`. A server that refuses it is dead.
    pub async fn connect(
        self: &Arc<Self>,
        server: ServerId,
        deadline: Instant,
    ) -> Result<TcpStream, Unreached> {
        let stream = self.connect_by(server, deadline, || self.dial(server)).await?;
        self.server_counters[server].connections_opened.inc();
        Ok(stream)
    }

    /// As `connect`, with the caller's attempts. Failures that are not the server's are retried
    /// until `deadline`.
    pub async fn connect_by<T, F>(
        self: &Arc<Self>,
        server: ServerId,
        deadline: Instant,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, Unreached>
    where
        F: Future<Output = Result<T, Unreached>>,
    {
        let answers = || self.server_counters[server].latency_count.get();
        loop {
            let before = answers();
            let unreached = match attempt().await {
                Ok(reached) => return Ok(reached),
                Err(unreached) => unreached,
            };
            let is_its_fault = match unreached {
                Unreached::Refused => true,
                Unreached::Late => answers() == before,
                Unreached::Local => false,
            };
            if is_its_fault {
                self.server_failed(server);
            }
            if is_its_fault || Instant::now() >= deadline {
                return Err(unreached);
            }
            if unreached == Unreached::Local {
                sleep(LOCAL_PAUSE).await;
            }
        }
    }

    /// Tries to connect once; the caller judges the result.
    pub async fn dial(&self, server: ServerId) -> Result<TcpStream, Unreached> {
        let connecting = TcpStream::connect(self.servers()[server].address);
        // Boxed: who uses a connection that is there carries none of this with it.
        match Box::pin(timeout(self.config.connect_timeout(), connecting)).await {
            Ok(Ok(stream)) => Ok(stream::without_delay(stream)),
            Ok(Err(error)) if is_local(&error) => {
                self.counters.local_errors.inc();
                Err(Unreached::Local)
            }
            Ok(Err(error)) if error.kind() != io::ErrorKind::TimedOut => Err(Unreached::Refused),
            _ => Err(Unreached::Late),
        }
    }

    /// True if the server accepts a connection within the time of a check.
    pub async fn is_reachable(&self, server: ServerId) -> bool {
        let dialling = self.dial(server);
        match &self.config().health_check {
            Some(check) => matches!(timeout(check.timeout(), dialling).await, Ok(Ok(_))),
            None => dialling.await.is_ok(),
        }
    }

    /// True if the server is ejected for its failures.
    pub fn is_ejected(&self, server: ServerId) -> bool {
        self.choices().selector.is_ejected(server)
    }

    /// Takes a server out: it gets nothing new, whatever probes find. Requests under way continue.
    pub fn take_out(self: &Arc<Self>, server: ServerId) {
        self.decide(|choices, now, grants| {
            choices.taken_out[server] = true;
            choices.selector.server_down(now, server, grants);
        });
    }

    /// Lets a server in again after a successful probe, which starts now.
    pub fn let_in(self: &Arc<Self>, server: ServerId) {
        let mut choices = self.choices();
        choices.taken_out[server] = false;
        let is_alive = choices.selector.is_alive(server);
        drop(choices);
        if !is_alive {
            self.probe(server, true);
        }
    }

    /// True if the server needs a probe.
    pub fn needs_probe(&self, server: ServerId) -> bool {
        let choices = self.choices();
        !choices.taken_out[server] && !choices.selector.is_alive(server)
    }

    pub(super) fn probe(&self, server: ServerId, at_once: bool) {
        // The receiver lives as long as the arbiter; at its end nobody probes any more.
        let _ = self.downs.send(Down { server, at_once });
    }

    /// Notes a successful probe.
    pub fn server_up(self: &Arc<Self>, server: ServerId) {
        self.decide(|choices, now, grants| {
            if !choices.taken_out[server] {
                choices.selector.server_up(now, server, grants);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;

    fn error(code: Errno) -> io::Error {
        io::Error::from_raw_os_error(code as i32)
    }

    #[test]
    fn want_of_a_port_memory_or_descriptor_is_this_machines_fault() {
        for code in [
            Errno::EADDRNOTAVAIL,
            Errno::ENOMEM,
            Errno::ENOBUFS,
            Errno::EMFILE,
            Errno::ENFILE,
            Errno::EAGAIN,
            Errno::EPERM,
        ] {
            assert!(is_local(&error(code)), "{code}");
        }
    }

    #[test]
    fn what_the_peer_or_the_way_to_it_says_is_not() {
        for code in [
            Errno::ECONNREFUSED,
            Errno::ECONNRESET,
            Errno::EHOSTUNREACH,
            Errno::ENETUNREACH,
            Errno::ETIMEDOUT,
            Errno::ENOENT,
            Errno::EACCES,
        ] {
            assert!(!is_local(&error(code)), "{code}");
        }
        assert!(!is_local(&io::ErrorKind::TimedOut.into()), "of no call");
    }

    #[tokio::test]
    async fn the_system_says_so_where_an_address_is_not_to_be_had() {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        let elsewhere = "192.0.2.1:0".parse().unwrap();
        let error = socket.bind(elsewhere).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::EADDRNOTAVAIL as i32));
        assert!(is_local(&error));
    }
}
