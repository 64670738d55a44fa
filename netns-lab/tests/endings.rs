//! However a lab ends, nothing of it is left, and nothing of others was touched.

use crate::Test;
use crate::bed::{Machine, TWO, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::time::Duration;

pub const TESTS: &[Test] = &[
    ("after_down_nothing_is_left_and_once_more_is_no_failure", down),
    ("what_ends_in_a_lab_without_a_parent_is_waited_for", orphans),
    ("a_lab_whose_process_is_killed_leaves_nothing", killed),
    ("a_lab_in_the_foreground_ends_with_who_started_it", foreground),
    ("a_lab_that_is_killed_while_it_comes_up_leaves_nothing", killed_early),
    ("two_labs_of_the_same_addresses_do_not_meet", two_at_once),
];

fn down() {
    let machine = Machine::new();
    let before = machine.snapshot();
    machine.up("one", TWO);
    // A program that somebody runs in it ends with it.
    let mut sleeper = machine.start(&["shell", "west/gw-a", "--", "sleep", "1000"]);
    until("it runs", || machine.lab(&["shell", "west/gw-a", "--", "pgrep", "sleep"]).is_ok());
    assert_eq!(machine.lab(&["down", "one"]).unwrap(), "lab one is down");
    assert!(!sleeper.wait().unwrap().success());
    machine.is_as(&before);
    assert_eq!(machine.processes(), Vec::<i32>::new());
    for arguments in [&["down", "one"][..], &["down"], &["down", "--all"]] {
        assert_eq!(machine.lab(arguments).unwrap(), "no such lab is up");
    }
    // And the name is free.
    machine.up("one", TWO);
}

fn orphans() {
    let machine = Machine::new();
    machine.up("one", TWO);
    let shell = |script| machine.lab(&["shell", "west/gw-a", "--", "sh", "-c", script]).unwrap();
    shell("sleep 0.3 >/dev/null 2>&1 &");
    assert!(shell("ps -A -o comm").contains("sleep"));
    until("it ended and was waited for", || !shell("ps -A -o comm").contains("sleep"));
}

fn killed() {
    let machine = Machine::new();
    let before = machine.snapshot();
    machine.up("one", TWO);
    let [keeper] = machine.processes()[..] else { panic!("{:?}", machine.processes()) };
    kill(Pid::from_raw(keeper), Signal::SIGKILL).unwrap();
    until("its process is gone", || machine.processes().is_empty());
    machine.is_as(&before);
    assert_eq!(machine.lab(&["down", "one"]).unwrap(), "no such lab is up");
}

fn foreground() {
    let machine = Machine::new();
    let before = machine.snapshot();
    let file = machine.file("one", TWO);
    // Who runs in the background of a shell ignores Ctrl-C, and so do those it starts.
    let interrupts = if ignores(Signal::SIGINT) { Signal::SIGTERM } else { Signal::SIGINT };
    for signal in [interrupts, Signal::SIGTERM, Signal::SIGKILL] {
        let mut starter = machine.start(&["up", &file]);
        until("it is up", || machine.lab(&["places"]).is_ok());
        kill(Pid::from_raw(i32::try_from(starter.id()).unwrap()), signal).unwrap();
        starter.wait().unwrap();
        until("its process is gone", || machine.processes().is_empty());
        machine.is_as(&before);
    }
    // And the starter ends with its lab.
    let mut starter = machine.start(&["up", &file]);
    until("it is up", || machine.lab(&["places"]).is_ok());
    machine.lab(&["down", "one"]).unwrap();
    // Whether it is content depends on whether it was still about to list the places.
    starter.wait().unwrap();
    machine.is_as(&before);
}

/// Whether this process was started with the signal ignored.
fn ignores(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal as i32 - 1) & 1 == 1
}

fn killed_early() {
    let machine = Machine::new();
    let before = machine.snapshot();
    let file = machine.file("one", TWO);
    for moment in 0..12 {
        let mut starter = machine.start(&["up", &file, "--detach"]);
        std::thread::sleep(Duration::from_millis(moment * 20));
        for process in machine.processes() {
            // It may have ended meanwhile.
            let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
        }
        starter.wait().unwrap();
        // One may have begun as the others were looked up.
        machine.lab(&["down", "one"]).unwrap();
        until("its processes are gone", || machine.processes().is_empty());
        machine.is_as(&before);
    }
}

fn two_at_once() {
    let machine = Machine::new();
    let before = machine.snapshot();
    machine.up("one", TWO);
    machine.up("two", TWO);
    let file = machine.file("one", TWO);
    let said = machine.lab(&["up", &file, "--detach"]).unwrap_err();
    assert!(said.contains("a lab 'one' is up already"), "{said}");
    assert_eq!(machine.lab(&["list"]).unwrap(), "one\ntwo");
    let said = machine.lab(&["down"]).unwrap_err();
    assert!(said.contains("one, two are up"), "{said}");
    machine.lab(&["cut", "west/gw-a", "east/gw-a", "--lab", "one"]).unwrap();
    let reaches = |lab| {
        let ping = ["ping", "-n", "-q", "-c", "2", "-i", "0.1", "-W", "1", "172.16.1.10"];
        machine.lab(&[&["shell", "west/gw-a", "--lab", lab, "--"][..], &ping].concat()).is_ok()
    };
    assert!(!reaches("one") && reaches("two"));
    machine.lab(&["down", "one"]).unwrap();
    assert!(reaches("two"));
    machine.lab(&["down", "two"]).unwrap();
    machine.is_as(&before);
}
