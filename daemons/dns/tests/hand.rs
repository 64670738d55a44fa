//! The daemon as it will be: the machine, the only loop, and these sockets.

use super::table::{cluster_ip, headless};
use super::*;
use std::sync::mpsc;
use std::time::Instant;
use tombolo_core::base::{ClusterId, Few, Wall};
use tombolo_core::dns::Zone as Domain;
use tombolo_core::model::{Api, Digest, ExportSummary, Key, Kind, Object, Version, WatchEvent, Write as ApiWrite};
use tombolo_core::network::Wanted;
use tombolo_core::roles::{Dns, Event, Input, RequestId, Via};
use tombolo_shell::{Hands, Inbox, Journal, KernelHand, KubeHand, NatHand, NetHand, WallClock, inbox, run};

/// All hands but that of the zone: the DNS machine has no use for them.
struct Idle;

impl KubeHand for Idle {
    fn watch(&mut self, _: &'static [(Api, Kind)]) {}
    fn read(&mut self, _: RequestId, _: Api, key: Key) {
        panic!("{key:?}");
    }
    fn write(&mut self, _: RequestId, _: Api, write: ApiWrite) {
        panic!("{write:?}");
    }
}

impl NetHand for Idle {
    fn send(&mut self, _: Via, to: IpAddr, _: Vec<u8>) {
        panic!("{to}");
    }
}

impl NatHand for Idle {
    fn probe(&mut self, to: SocketAddr, _: Option<ClusterId>, _: Vec<u8>) {
        panic!("{to}");
    }
    fn look_up(&mut self) {
        panic!("nothing to look up");
    }
}

impl KernelHand for Idle {
    fn apply(&mut self, wanted: Arc<Wanted>) {
        panic!("{wanted:?}");
    }
}

impl Journal for Idle {
    fn tell(&mut self, event: Event) {
        panic!("{event:?}");
    }
}

impl WallClock for Idle {
    fn now(&self) -> Wall {
        Wall::from_unix_secs(1_000)
    }
}

/// Runs the daemon's loop over `zone` on a thread of its own until all clones of the inbox are gone.
fn daemon(zone: Zone) -> (Inbox, std::thread::JoinHandle<()>) {
    let (told, tells) = mpsc::channel();
    let own = ClusterId::new("west").unwrap();
    let looped = move || {
        let (inbox, inputs) = inbox();
        told.send(inbox).unwrap();
        let machine = Dns::new(own, Domain::default(), Duration::from_secs(5), Few::default());
        let hands = Hands {
            kube: Box::new(Idle),
            net: Box::new(Idle),
            nat: Box::new(Idle),
            kernel: Box::new(Idle),
            zone: Box::new(zone),
            journal: Box::new(Idle),
            wall: Box::new(Idle),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(run(machine, hands, inputs, None));
    };
    let thread = std::thread::Builder::new().spawn(looped).unwrap();
    (tells.recv().unwrap(), thread)
}

/// Asks until the reply is of this code with these addresses.
fn until(asker: &mut Asker, name: &str, code: ResponseCode, expected: &[&str]) {
    let began = Instant::now();
    loop {
        let reply = Message::from_vec(&asker.ask(&plain(name, RecordType::A))).unwrap();
        if reply.metadata.response_code == code && addresses(&reply) == expected {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{name} is still {reply:?}");
    }
}

#[test]
fn what_the_machine_decides_is_what_the_sockets_answer() {
    let Bed { server, zone } = bed_with(&settings(loopback()), Table::of_nothing(Domain::default()));
    let mut asker = Asker::new((Transport::Udp, server.addresses()[0]));
    let (inbox, thread) = daemon(zone);
    let put = |event| inbox.put(Input::Watched(Api::Local, event));
    let shown = |object: Object| put(WatchEvent::Applied(object, Version("1".into())));
    until(&mut asker, WEB, ResponseCode::ServFail, &[]);

    let objects: Vec<Object> = cluster_ip("web", &["10.102.0.10"]).objects();
    let summary = |objects: &[Object], generation| {
        let digest: Digest = objects.iter().map(Object::key).collect::<Vec<_>>().iter().collect();
        Object::from(ExportSummary { cluster: ClusterId::new("west").unwrap(), generation, digest })
    };
    let kinds = [Kind::Import, Kind::SourceSlice, Kind::Gateway, Kind::ExportSummary];
    kinds.into_iter().for_each(|kind| put(WatchEvent::Began(kind)));
    objects.iter().cloned().for_each(shown);
    kinds[..3].iter().for_each(|kind| put(WatchEvent::Synced(*kind)));
    until(&mut asker, WEB, ResponseCode::ServFail, &[]);
    assert!(!server.is_ready());
    shown(summary(&objects, 1));
    put(WatchEvent::Synced(Kind::ExportSummary));
    until(&mut asker, WEB, ResponseCode::NoError, &["10.102.0.10"]);
    until(&mut asker, DB, ResponseCode::NXDomain, &[]);
    assert!(server.is_ready());

    headless("db", ["10.2.1.5=db-0".to_string()]).objects().into_iter().for_each(shown);
    until(&mut asker, DB, ResponseCode::NoError, &["10.2.1.5"]);
    drop(inbox);
    thread.join().unwrap();
    // The daemon's loop is gone, and its last word stays.
    until(&mut asker, DB, ResponseCode::NoError, &["10.2.1.5"]);
}
