//! TCP streams whose every byte is checked.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

use crate::bed::Place;

/// Bytes that do not repeat within a packet, nor from one to the next.
fn pattern(length: usize, salt: u64) -> Vec<u8> {
    let mut state = salt | 1;
    let step = |state: &mut u64| {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    };
    (0..length.div_ceil(8)).flat_map(|_| step(&mut state).to_le_bytes()).take(length).collect()
}

/// Takes connections on this port, sends `length` bytes on each and checks as many that come.
pub fn listen(place: &Place, address: IpAddr, port: u16, length: usize) -> JoinHandle<()> {
    let listener = place.run(move || TcpListener::bind(SocketAddr::new(address, port)).unwrap());
    place.beside(move || exchange(listener.accept().unwrap().0, length, 2, 1))
}

/// Connects there and does the same.
pub fn call(place: &Place, to: IpAddr, port: u16, length: usize) -> JoinHandle<()> {
    place.beside(move || exchange(TcpStream::connect(SocketAddr::new(to, port)).unwrap(), length, 1, 2))
}

fn exchange(stream: TcpStream, length: usize, sends: u64, gets: u64) {
    let mut writer = stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        writer.write_all(&pattern(length, sends)).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let (mut stream, mut got) = (stream, Vec::new());
    stream.read_to_end(&mut got).unwrap();
    sending.join().unwrap();
    assert_eq!(got.len(), length);
    assert!(got == pattern(length, gets), "what came is not what was sent");
}
