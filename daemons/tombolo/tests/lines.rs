//! What a person gets told who sets a daemon up badly.

use crate::bed::Bed;
use std::process::Command;

/// The exit code, and what stands on the last line with an error in it.
fn told(bed: &Bed, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tombolo"));
    let output = command.args(arguments).env_clear().current_dir(bed.path("")).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let line = text.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
    (output.status.code().unwrap(), line.to_owned())
}

#[test]
fn what_is_missing_or_wrong_is_told_in_a_line() {
    let bed = Bed::new("lines");
    std::fs::write(bed.path("typo.yaml"), "cluster-di: west\n").unwrap();
    std::fs::write(bed.path("no-record"), "{}\n").unwrap();
    std::fs::write(bed.path("empty"), "\n").unwrap();
    let gateway =
        ["gateway", "--cluster-id=west", "--node-name=gw", "--pod-cidrs=10.1.0.0/16", "--service-cidrs=10.2.0.0/16"];
    let state = bed.path("state").display().to_string();
    let with = |more: &[&str]| {
        let state = ["--state-dir", state.as_str()];
        told(&bed, &[gateway.as_slice(), state.as_slice(), more].concat())
    };
    for (said, expected) in [
        (told(&bed, &["dns", "--cluster-id=West!"]), "error: invalid value 'West!' for '--cluster-id <ID>': "),
        (told(&bed, &["dns"]), "error: the following required arguments were not provided:"),
        (
            told(&bed, &["dns", "--cluster-id=west", "--dns-listen=127.0.0.1:0"]),
            "error: how to reach the own cluster's API: ",
        ),
        (
            told(&bed, &["dns", "--cluster-id=west", "--dns-listen=127.0.0.1:0", "--kubeconfig=none"]),
            "error: how to reach the own cluster's API: none: ",
        ),
        (
            told(&bed, &["dns", "--config=typo.yaml"]),
            "error: typo.yaml: `tombolo dns` has no setting `cluster-di`: it has ",
        ),
        (told(&bed, &["dns", "--config=missing.yaml"]), "error: missing.yaml: "),
        (told(&bed, &["dns", "--cluster-id=west", "--log=a=b=c"]), "error: --log: \"a=b=c\": "),
        (told(&bed, &["replay", "no-record"]), "error: no-record: the first line is no blueprint of a daemon: "),
        (with(&["--broker-api=https://b", "--public-address=me"]), "error: --public-address: \"me\" is none of "),
        (with(&["--broker-api=https://b", "--psk-file=empty"]), "error: --psk-file: it holds no secret"),
        (with(&["--broker-api=https://b", "--psk-file=lost"]), "error: lost: "),
        (with(&["--broker-api=https://b"]), "error: --psk-file: NAT discovery between members is sealed: "),
        (with(&["--cable-driver=ipsec", "--broker-api=https://b"]), "error: invalid value 'ipsec' for "),
        (with(&[]), "error: the following required arguments were not provided:"),
    ] {
        assert!(said.0 != 0 && said.1.starts_with(expected), "{said:?}, and not {expected:?}");
    }
}
