//! A call from the namespace of the calling thread.

use core::fmt;
use core::str::FromStr;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// How it is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// An HTTP request over a new connection.
    Http,
    /// A line over a new connection.
    Tcp,
    /// A datagram.
    Udp,
}

/// Whom to call, and how: `http://10.102.0.10:80`, `tcp://…`, `udp://…`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Number {
    /// How.
    pub manner: Manner,
    /// Whom.
    pub to: SocketAddr,
}

/// The text is no number to call.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' is nothing to call: say http://ADDRESS:PORT, tcp://ADDRESS:PORT or udp://ADDRESS:PORT")]
pub struct NoNumber(String);

impl FromStr for Number {
    type Err = NoNumber;
    fn from_str(text: &str) -> Result<Self, NoNumber> {
        let wrong = || NoNumber(text.to_owned());
        let (manner, rest) = text.split_once("://").ok_or_else(wrong)?;
        let manner = match manner {
            "http" => Manner::Http,
            "tcp" => Manner::Tcp,
            "udp" => Manner::Udp,
            _ => return Err(wrong()),
        };
        Ok(Self { manner, to: rest.trim_end_matches('/').parse().map_err(|_| wrong())? })
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let manner = match self.manner {
            Manner::Http => "http",
            Manner::Tcp => "tcp",
            Manner::Udp => "udp",
        };
        write!(f, "{manner}://{}", self.to)
    }
}

/// Who answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The name of the pod.
    pub name: String,
    /// The caller's address and port, as the pod saw them.
    pub seen: SocketAddr,
}

/// Calls, and with UDP from this port, if it is given.
///
/// # Errors
/// How far it came, within that time.
pub fn call(number: Number, timeout: Duration, from: Option<u16>) -> io::Result<Answer> {
    // What a socket says whose time is over.
    let is_late = |error: &io::Error| error.kind() == ErrorKind::WouldBlock;
    attempt(number, timeout, from).map_err(|error| if is_late(&error) { ErrorKind::TimedOut.into() } else { error })
}

fn attempt(number: Number, timeout: Duration, from: Option<u16>) -> io::Result<Answer> {
    let until = Instant::now() + timeout;
    let left = || {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::Error::from(ErrorKind::TimedOut)) } else { Ok(left) }
    };
    let answer = match number.manner {
        Manner::Http => {
            let stream = TcpStream::connect_timeout(&number.to, left()?)?;
            stream.set_read_timeout(Some(left()?))?;
            let request = format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", number.to);
            (&stream).write_all(request.as_bytes())?;
            http(&mut BufReader::new(&stream))?
        }
        Manner::Tcp => {
            let stream = TcpStream::connect_timeout(&number.to, left()?)?;
            stream.set_read_timeout(Some(left()?))?;
            (&stream).write_all(b"?\n")?;
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line)?;
            line
        }
        Manner::Udp => {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, from.unwrap_or(0)))?;
            socket.connect(number.to)?;
            socket.set_read_timeout(Some(left()?))?;
            socket.send(b"?")?;
            let mut bytes = [0; 512];
            let length = socket.recv(&mut bytes)?;
            String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned()
        }
    };
    let (name, seen) = answer.trim_end().split_once(' ').unwrap_or_default();
    let seen = seen.split(' ').next().and_then(|seen| seen.parse().ok());
    let seen = seen.ok_or_else(|| io::Error::other(format!("answered '{}'", answer.trim_end())))?;
    Ok(Answer { name: name.to_owned(), seen })
}

fn http(reader: &mut BufReader<&TcpStream>) -> io::Result<String> {
    let mut status = String::new();
    reader.read_line(&mut status)?;
    if !status.starts_with("HTTP/1.1 200") {
        return Err(io::Error::other(format!("answered {}", status.trim_end())));
    }
    let mut line = String::from(" ");
    while !line.trim_end().is_empty() || line == " " {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    line.clear();
    reader.read_line(&mut line)?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_as_it_is_written_and_nothing_else_is_one() {
        for text in ["http://10.102.0.10:80", "tcp://10.102.0.10:80", "udp://10.1.0.2:53"] {
            assert_eq!(text.parse::<Number>().unwrap().to_string(), text);
        }
        for text in ["10.0.0.1:80", "http://10.0.0.1", "ftp://10.0.0.1:21", "http://web:80"] {
            assert!(text.parse::<Number>().is_err(), "{text}");
        }
    }
}
