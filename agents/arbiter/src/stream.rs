//! Parts of a TCP connection that the standard type does not have.

use std::io;
use std::net::IpAddr;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;
use tokio::net::TcpStream;

/// Disables Nagle's algorithm: replies of two writes would wait for a delayed acknowledgement.
pub fn without_delay(stream: TcpStream) -> TcpStream {
    // A socket that refuses the option still works.
    let _ = stream.set_nodelay(true);
    stream
}

/// Ready when the peer has sent something or closed; the bytes remain to be read. An error counts
/// as an end.
pub fn poll_spoken(stream: &TcpStream, cx: &mut Context<'_>) -> Poll<()> {
    stream.poll_peek(cx, &mut ReadBuf::new(&mut [0])).map(|_| ())
}

/// True if the peer has neither closed nor sent anything.
pub fn is_silent(stream: &TcpStream) -> bool {
    let read = stream.try_read(&mut [0]);
    read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// IP address of the peer; none if the connection is lost.
pub fn peer_ip(stream: &TcpStream) -> Option<IpAddr> {
    stream.peer_addr().ok().map(|address| address.ip())
}
