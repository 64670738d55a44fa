//! The sign of life on a Gateway object.
//!
//! Submariner's tools take a Gateway for gone when its annotation `update-timestamp` is older than 15 s. Our machines judge
//! by hellos and leases and do not know it; so it is written here, by a merge patch that touches nothing else.

use crate::convert::UPDATE_TIMESTAMP;
use crate::request::Requests;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use tombolo_core::base::{NodeName, Wall};
use tombolo_core::model::{Api, Key, Kind};

/// Time between signs, as Submariner's gateways give them (`submariner:pkg/cableengine/syncer/syncer.go`).
pub const INTERVAL: Duration = Duration::from_secs(5);

/// Signs for ever. Without a Gateway object there is nothing to sign on, and a sign that fails is made up for by the next.
pub async fn beat(requests: Arc<Requests>, node: NodeName, wall: impl Fn() -> Wall) {
    let key = Key::new(Kind::Gateway, "", node.as_str());
    loop {
        sleep(INTERVAL).await;
        let now = wall().unix_secs().to_string();
        let _ = requests
            .patch(Api::Local, &key, &json!({ "metadata": { "annotations": { UPDATE_TIMESTAMP: now } } }))
            .await;
    }
}
