//! Reading: one object, and lists in pages of one snapshot.

use crate::selector::Selector;
use crate::server::{ObjectKey, State, render};
use crate::{Failure, Query, Reason, Target};
use serde_json::{Value, json};
use std::ops::Bound;
use tombolo_core::base::{HistoryError, Revision};

impl State {
    pub fn read(&self, target: &Target, query: &Query) -> Result<Value, Failure> {
        self.not_ahead(query)?;
        let (_, there) = self.find(target)?;
        Ok(render(&there, &target.spec, &target.version))
    }

    pub fn list(&self, target: &Target, query: &Query) -> Result<Value, Failure> {
        self.not_ahead(query)?;
        let selector = Selector::parse(query.labels.as_deref(), query.fields.as_deref())?;
        let (mut low, high) = ObjectKey::range_of(&target.spec, &target.namespace);
        let mut revision = None;
        if let Some(token) = &query.continue_token {
            let place = Place::read(token)?;
            revision = Some(place.revision);
            low = Bound::Excluded(ObjectKey::new(&target.spec, &place.namespace, &place.name));
        } else if query.exact {
            revision = query.revision()?;
        }
        let snapshot = self.store.snapshot(revision).map_err(|error| expired_or_ahead(&error))?;
        let mut rest = snapshot.range((low, high)).filter(|(_, there)| selector.matches(&there.value)).peekable();
        let limit = query.limit.unwrap_or(usize::MAX);
        let mut items = Vec::new();
        let mut last = None;
        while items.len() < limit {
            let Some((key, there)) = rest.next() else { break };
            items.push(item(render(there, &target.spec, &target.version), target.spec.is_builtin()));
            last = Some(key);
        }
        let mut metadata = json!({ "resourceVersion": snapshot.revision().to_string() });
        if let (Some(last), true) = (last, rest.peek().is_some()) {
            let (namespace, name) = (last.namespace.to_string(), last.name.to_string());
            metadata["continue"] = json!(Place { revision: snapshot.revision(), namespace, name }.to_token());
            if selector.is_everything() {
                metadata["remainingItemCount"] = json!(rest.count());
            }
        }
        Ok(json!({
            "kind": format!("{}List", target.spec.kind),
            "apiVersion": target.spec.api_version(&target.version),
            "metadata": metadata,
            "items": items,
        }))
    }

    /// A read may not be older than the revision it names.
    fn not_ahead(&self, query: &Query) -> Result<(), Failure> {
        match query.revision()? {
            Some(asked) if asked > self.store.latest() => {
                Err(expired_or_ahead(&HistoryError::Ahead { asked, latest: self.store.latest() }))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Query {
    /// The revision it names; 0 and none are none.
    pub(crate) fn revision(&self) -> Result<Option<Revision>, Failure> {
        let Some(text) = &self.resource_version else { return Ok(None) };
        let number: u64 = text
            .parse()
            .map_err(|_| Failure::new(Reason::BadRequest, format!("resourceVersion: {text:?} is no version")))?;
        Ok(Some(Revision(number)).filter(|revision| revision.0 > 0))
    }
}

/// As clients are told that a revision cannot be answered for.
pub(crate) fn expired_or_ahead(error: &HistoryError) -> Failure {
    match error {
        HistoryError::Compacted { asked, oldest } => {
            Failure::new(Reason::Expired, format!("too old resource version: {asked} ({oldest})"))
        }
        HistoryError::Ahead { asked, latest } => Failure::new(
            Reason::TooLargeVersion,
            format!("Timeout: Too large resource version: {asked}, current: {latest}"),
        ),
    }
}

/// Items of built-in lists do not say what they are.
fn item(mut object: Value, builtin: bool) -> Value {
    if let (true, Some(map)) = (builtin, object.as_object_mut()) {
        map.remove("apiVersion");
        map.remove("kind");
    }
    object
}

/// Where the next page begins.
struct Place {
    revision: Revision,
    namespace: String,
    name: String,
}

impl Place {
    fn to_token(&self) -> String {
        format!("{}/{}/{}", self.revision, self.namespace, self.name)
    }

    fn read(token: &str) -> Result<Self, Failure> {
        let bad = || Failure::new(Reason::BadRequest, format!("continue key is not valid: {token:?}"));
        match token.split('/').collect::<Vec<_>>().as_slice() {
            [revision, namespace, name] => Ok(Self {
                revision: Revision(revision.parse().map_err(|_| bad())?),
                namespace: (*namespace).to_owned(),
                name: (*name).to_owned(),
            }),
            _ => Err(bad()),
        }
    }
}
