//! nft as a program that we run: scripts in, listings out.
//!
//! One nft is kept running: it replaces our table in about a millisecond, where one that is started for it takes ten to
//! twenty (the kernel destroys the old table before the process may end). A script reaches it as a file in memory, by one
//! `include` line, and is one transaction. Each request ends with a question for a table that is not there: the complaint
//! says that nft is done with what came before, and, other than any listing, costs nothing where other tables are large.

mod delta;
mod listing;

use crate::error::Fault;
pub(crate) use delta::delta;
pub(crate) use listing::{NOTES, Table};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use tombolo_core::network::constants::NFT_TABLE;

/// How long nft may think before it is given up. Large tables take a second.
const PATIENCE_MS: u16 = 30_000;

/// A table that nobody has.
const DONE: &str = "tombolo-is-done";

/// nft in this namespace.
#[derive(Default)]
pub(crate) struct Nft {
    kept: Option<Kept>,
}

impl Nft {
    /// Carries out a script as one transaction.
    pub(crate) fn run(&mut self, script: &str) -> Result<(), Fault> {
        let said = self.ask(|nft| nft.run(script))?;
        if said.errors.is_empty() { Ok(()) } else { Err(Fault::Nft(said.errors)) }
    }

    /// Our table, if it is there.
    pub(crate) fn list(&mut self) -> Result<Option<Table>, Fault> {
        let said = self.ask(Kept::list)?;
        Ok(said.line.filter(has_table).as_ref().map(Table::read))
    }

    /// One that has ended is replaced. What it was asked may have been done: no request does harm twice.
    fn ask(&mut self, request: impl Fn(&mut Kept) -> io::Result<Said>) -> Result<Said, Fault> {
        if let Some(mut kept) = self.kept.take() {
            match request(&mut kept) {
                Ok(said) => {
                    self.kept = Some(kept);
                    return Ok(said);
                }
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut kept = Kept::start().map_err(|error| {
            let missing = error.kind() == io::ErrorKind::NotFound;
            if missing { Fault::Nft("not found: install nftables".into()) } else { Fault::Io(error) }
        })?;
        let said = request(&mut kept)?;
        self.kept = Some(kept);
        Ok(said)
    }
}

fn has_table(listing: &Value) -> bool {
    listing::objects(listing).any(|(kind, object)| kind == "table" && listing::is_ours(object, "name"))
}

/// What nft said to one request.
struct Said {
    line: Option<Value>,
    errors: String,
}

/// A running nft.
struct Kept {
    process: Child,
    input: ChildStdin,
    output: ChildStdout,
    errors: ChildStderr,
    script: File,
}

impl Kept {
    fn start() -> io::Result<Self> {
        let script = File::from(memfd_create("tombolo.nft", MFdFlags::MFD_CLOEXEC)?);
        let mut command = Command::new("nft");
        // Without a home it keeps no history of what it was told.
        command.args(["--json", "--interactive"]).env("HOME", "/nonexistent").env("TERM", "dumb");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn()?;
        let (input, output, errors) = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(input), Some(output), Some(errors)) = (input, output, errors) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        for stream in [output.as_fd(), errors.as_fd()] {
            fcntl(stream, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        Ok(Self { process, input, output, errors, script })
    }

    fn run(&mut self, script: &str) -> io::Result<Said> {
        self.script.set_len(0)?;
        self.script.rewind()?;
        self.script.write_all(script.as_bytes())?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), self.script.as_raw_fd());
        self.say(&format!("include \"{path}\"\n"))
    }

    fn list(&mut self) -> io::Result<Said> {
        self.say(&format!("list table inet {NFT_TABLE}\n"))
    }

    /// Says something, and waits until nft is done with it.
    fn say(&mut self, request: &str) -> io::Result<Said> {
        self.input.write_all(request.as_bytes())?;
        self.input.write_all(format!("list table inet {DONE}\n").as_bytes())?;
        let (mut answer, mut errors) = (Vec::new(), Vec::new());
        loop {
            let streams = [self.output.as_fd(), self.errors.as_fd()];
            let mut waiting = streams.map(|stream| PollFd::new(stream, PollFlags::POLLIN));
            if poll(&mut waiting, PollTimeout::from(PATIENCE_MS))? == 0 {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "nft does not answer"));
            }
            let runs = take(&mut self.errors, &mut errors)?;
            let told = complaints(&String::from_utf8_lossy(&errors));
            if !take(&mut self.output, &mut answer)? || !runs {
                let why = String::from_utf8_lossy(&errors).trim().to_owned();
                return Err(io::Error::new(io::ErrorKind::BrokenPipe, format!("nft has ended: {why}")));
            }
            if let Some(errors) = told {
                return Ok(Said { line: parse(&answer), errors });
            }
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Takes what is there now; `false` at the end of the stream.
fn take(stream: &mut impl Read, into: &mut Vec<u8>) -> io::Result<bool> {
    match stream.read_to_end(into) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error),
    }
}

/// Some builds of nft echo what they read: the answer is where the JSON begins.
fn parse(answer: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(answer);
    serde_json::from_str(text.get(text.find("{\"nftables\"")?..)?).ok()
}

/// What nft complains of, without the places in a script that nobody can look into; `None` if it is not done yet.
fn complaints(errors: &str) -> Option<String> {
    let (before, _) = errors.split_once(DONE)?;
    let mut told: Vec<_> = before.lines().filter_map(|line| line.split_once("Error: ")).map(|(_, what)| what).collect();
    // The last is the one that was asked for.
    told.pop();
    Some(told.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_told_without_their_places_once_all_is_said() {
        let done = "Error: No such file or directory\nlist table inet tombolo-is-done\n                ^^^^^^^\n";
        let errors = "In file included from <cmdline>:1:1-41:\n/proc/1/fd/3:3:19-22: Error: Could not process rule: \
            No such file or directory\ndelete table inet nope\n                  ^^^^\n";
        assert_eq!(complaints(errors), None);
        let both = format!("{errors}{done}");
        assert_eq!(complaints(&both).unwrap(), "Could not process rule: No such file or directory");
        // The rest of what was said last time.
        assert_eq!(complaints(&format!("   ^^^^\n{done}")).unwrap(), "");
    }

    #[test]
    fn an_answer_is_found_behind_an_echo() {
        let answer =
            parse(b"nft> list tables\n{\"nftables\": [{\"table\": {\"name\": \"tombolo\", \"family\": \"inet\"}}]}\n");
        assert!(has_table(&answer.unwrap()));
        assert!(!has_table(&parse(b"{\"nftables\": []}\n").unwrap()));
        assert_eq!(parse(b"rubbish\n"), None);
    }
}
