//! Who asks: as fast as it is answered, or on time.

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg, setsockopt, sockopt};
use nix::unistd::Pid;
use std::io::{IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use tombolo_core::dns::{RecordKind, question};

const BATCH: usize = 32;
/// A question under way for so long is lost.
const LOST: Duration = Duration::from_millis(200);

/// This thread, and those that it starts from now on, stay on this core.
pub fn stay_on(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core).unwrap();
    sched_setaffinity(Pid::from_raw(0), &cores).unwrap();
}

/// Which name the question number `number` is for: all of them, and no two neighbours.
pub fn name(number: u32) -> String {
    format!("service-{number}.namespace-{}.svc.clusterset.local", number % 100)
}

/// What came of a round.
pub struct Outcome {
    pub replies: u64,
    pub lost: u64,
    took: Duration,
    /// How long each reply took, where it was asked on time, in the order of the questions' times.
    times: Vec<(Duration, Duration)>,
}

impl Outcome {
    pub fn rate(&self) -> f64 {
        self.replies as f64 / self.took.as_secs_f64()
    }

    /// The percentile of each tenth of a second, and of these the median: what else runs on the machine takes the cores away
    /// now and then, and is not what is measured.
    pub fn percentile(&self, part: f64) -> Duration {
        let of_window = |window: &[(Duration, Duration)]| at(window.iter().map(|(_, took)| *took).collect(), part);
        let windows = self.times.chunk_by(|one, next| one.0.as_millis() / 100 == next.0.as_millis() / 100);
        at(windows.map(of_window).collect(), 0.5)
    }
}

fn at(mut times: Vec<Duration>, part: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() as f64 * part) as usize).min(times.len() - 1)]
}

/// Keeps `in_flight` questions under way.
pub fn flood(at: SocketAddr, names: u32, in_flight: usize, time: Duration) -> Outcome {
    let mut asker = Asker::new(at, names);
    let began = Instant::now();
    let (mut under_way, mut replies, mut lost, mut heard) = (0, 0, 0, began);
    while began.elapsed() < time {
        let room = in_flight - under_way;
        if room >= BATCH {
            under_way += asker.send(BATCH);
        }
        let came = asker.receive(|_| ());
        if came > 0 {
            heard = Instant::now();
        } else if heard.elapsed() > LOST {
            lost += under_way as u64;
            (under_way, heard) = (0, Instant::now());
        }
        under_way = under_way.saturating_sub(came);
        replies += came as u64;
    }
    Outcome { replies, lost, took: began.elapsed(), times: Vec::new() }
}

/// Asks `rate` times a second, whatever becomes of the questions.
pub fn on_time(at: SocketAddr, names: u32, rate: f64, time: Duration) -> Outcome {
    let mut asker = Asker::new(at, names);
    let mut due_at = vec![Duration::ZERO; 1 << 16];
    let count = (rate * time.as_secs_f64()) as u64;
    let mut times = Vec::with_capacity(count as usize);
    let began = Instant::now();
    let mut sent = 0;
    while began.elapsed() < time + LOST && (times.len() as u64) < count {
        let due = ((began.elapsed().as_secs_f64() * rate) as u64).min(count);
        while sent < due {
            // The time at which it should have been asked counts: who asks late must not hide that.
            due_at[usize::from(asker.next_number())] = Duration::from_secs_f64(sent as f64 / rate);
            asker.send(1);
            sent += 1;
        }
        asker.receive(|number| {
            let due = due_at[usize::from(number)];
            times.push((due, began.elapsed() - due));
        });
    }
    times.sort_unstable();
    Outcome { replies: times.len() as u64, lost: count - times.len() as u64, took: time, times }
}

struct Asker {
    socket: UdpSocket,
    questions: Vec<Vec<u8>>,
    next: usize,
    buffers: Vec<[u8; 512]>,
    headers: MultiHeaders<SockaddrIn>,
}

impl Asker {
    fn new(at: SocketAddr, names: u32) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(at).unwrap();
        // What is lost must be the server's loss.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20));
        let of = |number: u32| question(0, &name(number.wrapping_mul(7_919) % names), RecordKind::A).unwrap();
        let questions = (0..names).map(of).collect();
        Self {
            socket,
            questions,
            next: 0,
            buffers: vec![[0; 512]; BATCH],
            headers: MultiHeaders::preallocate(BATCH, None),
        }
    }

    /// The number that the next question gets.
    fn next_number(&self) -> u16 {
        (self.next & 0xffff) as u16
    }

    /// Sends the next `count`, and says how many the system took.
    fn send(&mut self, count: usize) -> usize {
        let (first, names) = (self.next, self.questions.len());
        for number in first..first + count {
            self.questions[number % names][..2].copy_from_slice(&((number & 0xffff) as u16).to_be_bytes());
        }
        let slices: Vec<_> = (first..first + count).map(|n| [IoSlice::new(&self.questions[n % names])]).collect();
        let nobody = vec![None; count];
        let sent = sendmmsg(self.socket.as_raw_fd(), &mut self.headers, &slices, &nobody, [], MsgFlags::empty());
        let sent = sent.map_or(0, |sent| sent.count());
        self.next += sent;
        sent
    }

    /// Takes what has come; its numbers.
    fn receive(&mut self, mut each: impl FnMut(u16)) -> usize {
        let mut slices: Vec<_> = self.buffers.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
        let flags = MsgFlags::MSG_DONTWAIT;
        let count = match recvmmsg(self.socket.as_raw_fd(), &mut self.headers, slices.iter_mut(), flags, None) {
            Ok(messages) => messages.count(),
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED) => 0,
            Err(errno) => panic!("{errno}"),
        };
        for buffer in &self.buffers[..count] {
            assert!(buffer[3] & 0x0f == 0 && buffer[7] == 1, "an address, and not {:?}", &buffer[..12]);
            each(u16::from_be_bytes([buffer[0], buffer[1]]));
        }
        count
    }
}
