//! A way between the clusters that takes less than the links of both ends say, and tells nobody (B28): what the cable carries is
//! found out, TCP fits it in both directions and both families, and who sends more is told.

use crate::bed::{Daemon, until};
use crate::gateways::{EAST, WEST, is_skipped};
use crate::site::{At, Site};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the way takes, with the 60 bytes around what the cable carries, and that filled up to a multiple of 16.
const WAY: u16 = 1_300;
/// What is to be found: 1232, and at most 4 bytes less.
const CARRIED: RangeInclusive<u16> = 1_228..=1_232;
const LENGTH: usize = 1 << 20;

/// The longest packet of the cable to the other cluster, as metrics tell.
fn carried(daemon: &Daemon) -> Option<u16> {
    let metrics = daemon.get("/metrics")?.1;
    let line = metrics.lines().find(|line| line.starts_with("tombolo_cable_carries_bytes{"))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

/// Takes one connection, sends as many bytes as it gets, and says the segments that it was asked for.
fn serve(site: &Site, at: At, own: IpAddr) -> (SocketAddr, JoinHandle<Result<u32, std::io::Error>>) {
    let listener = site.node(at).run(move || TcpListener::bind((own, 0)).unwrap());
    let address = listener.local_addr().unwrap();
    let serving = site.node(at).run(move || std::thread::spawn(move || exchange(listener.accept()?.0)));
    (address, serving)
}

/// Connects from a pod's address, and does the same.
fn call(site: &Site, at: At, own: IpAddr, to: SocketAddr) -> Result<u32, std::io::Error> {
    site.node(at).run(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stream = runtime.block_on(async {
            let socket =
                if own.is_ipv4() { tokio::net::TcpSocket::new_v4()? } else { tokio::net::TcpSocket::new_v6()? };
            socket.bind((own, 0).into())?;
            let connecting = socket.connect(to);
            tokio::time::timeout(Duration::from_secs(5), connecting).await?
        })?;
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        exchange(stream)
    })
}

/// Sends and takes a megabyte at once; gives the size of the segments that were sent. Nothing for 4 s is an error.
fn exchange(stream: TcpStream) -> Result<u32, std::io::Error> {
    for timeout in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
        timeout(&stream, Some(Duration::from_secs(4)))?;
    }
    let mut writer = stream.try_clone()?;
    let sending = std::thread::spawn(move || {
        writer.write_all(&vec![7; LENGTH])?;
        writer.shutdown(std::net::Shutdown::Write)
    });
    let mut got = Vec::new();
    (&stream).read_to_end(&mut got)?;
    sending.join().unwrap()?;
    assert_eq!(got.len(), LENGTH);
    nix::sys::socket::getsockopt(&stream, nix::sys::socket::sockopt::TcpMaxSeg).map_err(Into::into)
}

/// A transfer both ways over a connection that the pod on `from` opens.
fn transfer(site: &Site, from: At, to: At, is_v6: bool) -> Result<[u32; 2], std::io::Error> {
    let pod = |at| if is_v6 { IpAddr::V6(site.pod_v6(at)) } else { IpAddr::V4(site.pod(at)) };
    let (address, serving) = serve(site, to, pod(to));
    let called = call(site, from, pod(from), address)?;
    Ok([called, serving.join().unwrap()?])
}

fn signal(daemon: &Daemon, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(daemon.pid()).unwrap()), signal).unwrap();
}

#[test]
fn over_a_way_that_takes_less_and_tells_nobody_tcp_fits_and_who_sends_more_is_told_b28() {
    if is_skipped() {
        return;
    }
    let (east, west) = (("east", "worker"), ("west", "worker"));
    let site = Site::new("lengths", &[EAST, east, WEST, west]);
    site.narrow(EAST, WEST, WAY);
    let daemons = [EAST, WEST, east, west].map(|at| site.start(at, &[]));
    let gateways = &daemons[..2];
    until("pods reach each other", || (site.reaches(east, west) && site.reaches(west, east)).then_some(()));
    let begun = Instant::now();
    let found = until("both gateways know what the cable carries", || {
        let found = [carried(&gateways[0])?, carried(&gateways[1])?];
        found.iter().all(|found| *found < 1_420).then_some(found)
    });
    println!("carried: {found:?}, after {:?}", begun.elapsed());
    assert!(found.iter().all(|found| CARRIED.contains(found)), "{found:?}");
    until("routes say so", || {
        let routes = site.node(EAST).sh("ip route show table all; ip -6 route show table all");
        (routes.matches(&format!("mtu lock {}", found[0])).count() >= 4).then_some(())
    });

    // Who sends more is told, also on another node; and then fits.
    let from = site.pod(west);
    let told = site.node(west).sh(&format!("ping -c 2 -W 1 -M do -s 1300 -I {from} {} || true", site.pod(east)));
    assert!(told.contains(&format!("mtu = {}", found[1])) || told.contains(&format!("mtu={}", found[1])), "{told}");
    let fits = found[1] - 28;
    assert!(site.node(west).succeeds(&format!("ping -c 1 -W 1 -M do -s {fits} -I {from} {}", site.pod(east))));
    site.node(west).sh("ip route flush cache");

    // From now on nobody hears such words, and TCP gets through all the same.
    for at in [EAST, east, WEST, west] {
        site.node(at).sh(
            "nft 'add table inet deaf'; nft 'add chain inet deaf in { type filter hook input priority -200; }'
             nft 'add rule inet deaf in icmp type destination-unreachable icmp code frag-needed drop'
             nft 'add rule inet deaf in icmpv6 type packet-too-big drop'",
        );
    }
    let lost = || site.too_long(EAST) + site.too_long(WEST);
    let (questions, both) = (lost(), found.iter().min().unwrap());
    for (from, to) in [(east, west), (west, east), (EAST, WEST), (west, EAST)] {
        for is_v6 in [false, true] {
            let segments =
                transfer(&site, from, to, is_v6).unwrap_or_else(|error| panic!("{from:?} to {to:?}: {error}"));
            // Twelve bytes of each segment are for timestamps.
            let most = u32::from(*both) - if is_v6 { 60 } else { 40 };
            let is_full = |segment: &u32| (most - 12 - 4..=most).contains(segment);
            assert!(segments.iter().all(is_full), "{from:?} to {to:?}: segments of {segments:?}, at most {most}");
        }
    }
    assert_eq!(lost(), questions, "nothing was too long for the way but what the gateways asked before");

    // The clamp is what does it: without, a connection stands still.
    gateways.iter().for_each(|daemon| signal(daemon, Signal::SIGSTOP));
    for at in [EAST, WEST] {
        site.node(at).sh("nft flush chain inet tombolo clamp");
    }
    let stuck = transfer(&site, west, east, false);
    gateways.iter().for_each(|daemon| signal(daemon, Signal::SIGCONT));
    assert!(stuck.is_err(), "{stuck:?}");
    until("the daemons put the clamp back", || {
        let clamps = |at| site.node(at).sh("nft list table inet tombolo").contains("size set rt mtu");
        (clamps(EAST) && clamps(WEST)).then_some(())
    });
    transfer(&site, west, east, false).unwrap();
}
