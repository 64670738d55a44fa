//! Brokers that got old data back.

use super::world::{World, exported, key_of, service};
use crate::model::Kind;
use alloc::vec;
use core::time::Duration;

#[test]
fn a_broker_restored_from_an_old_backup_takes_nothing_away_and_what_it_brings_back_goes_again() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("old", "10.102.0.9"));
    world.run();
    let backup = world.back_up_broker();
    world.put("east", exported("web", "10.102.0.10"));
    world.delete("east", &key_of(Kind::ServiceExport, "old"));
    world.run();
    world.stop("east");
    world.restore_broker(backup);
    world.run_for(Duration::from_secs(600));
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"], "its summary is older than one seen before");
    world.start("east");
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.broker(), ["ExportRecord east.web.shop"]);
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.10 ready"]);
    assert_eq!(world.import("west", "old"), None);
}

/// A cluster that was built anew since the backup and cannot be asked: what is shown of it is of the former one.
#[test]
fn what_a_backup_shows_of_a_cluster_that_spoke_later_is_not_believed_until_that_speaks_again() {
    let mut world = World::of(&["east", "west"]);
    world.put("east", exported("old", "10.102.0.9"));
    world.put("east", exported("web", "10.102.0.10"));
    world.run();
    let backup = world.back_up_broker();
    world.delete("east", &key_of(Kind::ServiceExport, "old"));
    world.put("east", vec![service("web", "10.102.0.11")]);
    world.run();
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.11 ready"]);
    world.cut_broker("east");
    for _ in 0..2 {
        world.restore_broker(backup.clone());
        world.run_for(Duration::from_secs(600));
        assert_eq!(world.sources("west", "web"), ["east 10.102.0.11 ready"]);
        assert_eq!(world.import("west", "old"), None);
    }
    world.put("east", vec![service("web", "10.102.0.12")]);
    world.heal_broker("east");
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.sources("west", "web"), ["east 10.102.0.12 ready"]);
    assert_eq!((world.import("west", "old"), world.broker()), (None, vec!["ExportRecord east.web.shop".into()]));
}
