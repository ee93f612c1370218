//! ZeroMQ's protocol, as much of it as a DEALER socket without security needs (ZMTP 3.0,
//! rfc.zeromq.org/spec/23): a greeting, one command each way, then messages of one frame.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

const GREETING_BYTES: usize = 64;
const MESSAGE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Connects as `identity`, and waits at most `limit` for each step.
pub fn connect(host: &str, port: u16, identity: &str, limit: Duration) -> Result<TcpStream> {
    let mut failure = Error::new(ErrorKind::NotFound, "no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(mut stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(limit))?;
                shake_hands(&mut stream, identity)?;
                stream.set_read_timeout(None)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn shake_hands(stream: &mut TcpStream, identity: &str) -> Result<()> {
    let mut greeting = [0; GREETING_BYTES];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..16].copy_from_slice(b"NULL");
    stream.write_all(&greeting)?;
    let mut answer = [0; GREETING_BYTES];
    stream.read_exact(&mut answer)?;
    if answer[0] != 0xff || answer[10] < 3 || &answer[12..17] != b"NULL\0" {
        return Err(Error::new(ErrorKind::InvalidData, "no ZMTP 3 without security"));
    }
    let mut ready = b"\x05READY".to_vec();
    for (name, value) in [("Socket-Type", "DEALER"), ("Identity", identity)] {
        ready.push(name.len() as u8); // a few bytes
        ready.extend(name.as_bytes());
        ready.extend((value.len() as u32).to_be_bytes());
        ready.extend(value.as_bytes());
    }
    write_frame(stream, COMMAND, &ready)?;
    let (flags, body) = read_frame(stream)?;
    if flags & COMMAND == 0 || !body.starts_with(b"\x05READY") {
        return Err(Error::new(ErrorKind::InvalidData, "no READY"));
    }
    Ok(())
}

/// Sends a message.
pub fn send(stream: &mut TcpStream, message: &[u8]) -> Result<()> {
    write_frame(stream, 0, message)
}

/// The next message.
///
/// # Errors
/// The connection is broken, or its peer's frames are none.
pub fn receive(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut message = vec![];
    loop {
        let (flags, body) = read_frame(stream)?;
        if flags & COMMAND != 0 {
            continue;
        }
        message.extend(body);
        if flags & MORE == 0 {
            return Ok(message);
        }
    }
}

fn write_frame(stream: &mut TcpStream, flags: u8, body: &[u8]) -> Result<()> {
    let mut frame = Vec::with_capacity(body.len() + 9);
    match u8::try_from(body.len()) {
        Ok(size) => frame.extend([flags, size]),
        Err(_) => {
            frame.push(flags | LONG);
            frame.extend((body.len() as u64).to_be_bytes());
        }
    }
    frame.extend(body);
    stream.write_all(&frame)
}

fn read_frame(stream: &mut TcpStream) -> Result<(u8, Vec<u8>)> {
    let mut flags = [0];
    stream.read_exact(&mut flags)?;
    let size = if flags[0] & LONG == 0 {
        let mut size = [0];
        stream.read_exact(&mut size)?;
        u64::from(size[0])
    } else {
        let mut size = [0; 8];
        stream.read_exact(&mut size)?;
        u64::from_be_bytes(size)
    };
    if size > MESSAGE_BYTES_MAX || flags[0] & !(MORE | LONG | COMMAND) != 0 {
        return Err(Error::new(ErrorKind::InvalidData, "no frame of ZMTP"));
    }
    let mut body = vec![0; size as usize];
    stream.read_exact(&mut body)?;
    Ok((flags[0], body))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A peer that greets as libzmq does and sends `frames`.
    fn peer(frames: Vec<u8>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut greeting = [0; GREETING_BYTES];
            (greeting[0], greeting[9], greeting[10], greeting[11]) = (0xff, 0x7f, 3, 1);
            greeting[12..16].copy_from_slice(b"NULL");
            stream.write_all(&greeting).unwrap();
            stream.write_all(b"\x04\x06\x05READY").unwrap();
            stream.write_all(&frames).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            // An end with something unread would be a reset.
            let _ = stream.read_to_end(&mut vec![]);
        });
        port
    }

    fn received(frames: &[u8]) -> Result<Vec<u8>> {
        let limit = Duration::from_secs(30);
        receive(&mut connect("127.0.0.1", peer(frames.to_vec()), "me", limit)?)
    }

    #[test]
    fn messages_of_one_frame_and_of_several_arrive_and_commands_are_passed_by() {
        assert_eq!(received(b"\x00\x02hi").unwrap(), b"hi");
        assert_eq!(received(b"\x04\x05\x04PING\x01\x01a\x00\x01b").unwrap(), b"ab");
        assert_eq!(received(b"\x02\0\0\0\0\0\0\0\x02hi").unwrap(), b"hi");
    }

    #[test]
    fn what_is_no_frame_or_too_large_is_an_error() {
        for frames in [&b"\x02\xff\0\0\0\0\0\0\x02hi"[..], b"\x20\x00", b"\x00\x05hi"] {
            assert!(received(frames).is_err());
        }
    }
}
