//! Single reads and writes.

use crate::convert::{self, parts_of, version_of};
use crate::hand::{Config, Connections};
use crate::resource::resource;
use crate::seen::Seen;
use kube::Api as KubeApi;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::timeout;
use tombolo_core::model::{Api, ApiError, Key, Kind, Object, Version, Write};
use tombolo_core::roles::Event;

/// What a request needs.
pub struct Requests {
    pub connections: Connections,
    pub config: Config,
    pub seen: Seen,
    pub tell: Box<dyn Fn(Event) + Send + Sync>,
}

type Objects = KubeApi<DynamicObject>;

impl Requests {
    /// Something was not usable.
    pub fn tell(&self, because: String) {
        (self.tell)(Event::Ignored { because });
    }

    /// Reads one object, within the deadline.
    pub async fn read(&self, api: Api, key: &Key) -> Result<Option<(Object, Version)>, ApiError> {
        let reading = async {
            let objects = self.objects(api, key)?;
            let Some(found) = objects.get_opt(&convert::object_name(key)).await.map_err(|e| api_error(&e, false))?
            else {
                return Ok(None);
            };
            let value = to_value(&found)?;
            self.seen.put(api, key.kind, &value);
            let object = convert::read(key.kind, &value).map_err(|error| refused(&format!("{key}: {error}")))?;
            Ok(object.map(|object| (object, version_of(&value))))
        };
        timeout(self.config.request_deadline, reading).await.unwrap_or(Err(ApiError::Unreachable))
    }

    /// Makes one write, within the deadline.
    pub async fn write(&self, api: Api, write: &Write) -> Result<Version, ApiError> {
        let writing = async {
            match write {
                Write::Create(object) => self.create(api, object).await,
                Write::Replace(object, version) => self.replace(api, object, version).await,
                Write::Delete(key, version) => self.delete(api, key, version).await,
            }
        };
        timeout(self.config.request_deadline, writing).await.unwrap_or(Err(ApiError::Unreachable))
    }

    /// Lays a merge patch over an object that exists, within the deadline.
    pub async fn patch(&self, api: Api, key: &Key, patch: &Value) -> Result<Version, ApiError> {
        let patching = async {
            let name = convert::object_name(key);
            let patched = self
                .objects(api, key)?
                .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .map_err(|e| api_error(&e, false))?;
            let value = to_value(&patched)?;
            self.seen.put(api, key.kind, &value);
            Ok(version_of(&value))
        };
        timeout(self.config.request_deadline, patching).await.unwrap_or(Err(ApiError::Unreachable))
    }

    async fn create(&self, api: Api, object: &Object) -> Result<Version, ApiError> {
        let ours = self.ours(api, object)?;
        let objects = self.objects(api, &object.key())?;
        let mut wanted = json!({ "metadata": {} });
        convert::overlay(&mut wanted, &ours);
        let made =
            objects.create(&PostParams::default(), &to_object(wanted)?).await.map_err(|e| api_error(&e, true))?;
        let made = self.with_status(&objects, object.kind(), to_value(&made)?, &ours).await?;
        self.seen.put(api, object.kind(), &made);
        Ok(version_of(&made))
    }

    async fn replace(&self, api: Api, object: &Object, version: &Version) -> Result<Version, ApiError> {
        let ours = self.ours(api, object)?;
        let key = object.key();
        let objects = self.objects(api, &key)?;
        let there = match self.seen.get(api, &key, version, &self.config.writer.places) {
            Some(there) => there,
            None => {
                let there = objects.get(&convert::object_name(&key)).await.map_err(|e| api_error(&e, false))?;
                to_value(&there)?
            }
        };
        if version_of(&there) != *version {
            return Err(ApiError::Conflict);
        }
        // The status first: a reader takes a source that both name.
        let there = self.with_status(&objects, key.kind, there, &ours).await?;
        if key.kind == Kind::ServiceExport {
            // The rest of it is its user's.
            self.seen.put(api, key.kind, &there);
            return Ok(version_of(&there));
        }
        let mut wanted = there.clone();
        convert::overlay(&mut wanted, &ours);
        let name = convert::object_name(&key);
        let written = objects
            .replace(&name, &PostParams::default(), &to_object(wanted)?)
            .await
            .map_err(|e| api_error(&e, false))?;
        let written = to_value(&written)?;
        self.seen.put(api, key.kind, &written);
        Ok(version_of(&written))
    }

    /// `there`, after its status was made ours, where that is a subresource of its own.
    async fn with_status(
        &self,
        objects: &Objects,
        kind: Kind,
        mut there: Value,
        ours: &Value,
    ) -> Result<Value, ApiError> {
        let before = there["status"].clone();
        if kind == Kind::Import {
            convert::lay_import_status(&mut there, ours);
        } else if kind == Kind::ServiceExport {
            convert::lay_conditions(&mut there, ours);
        }
        if there["status"] == before {
            return Ok(there);
        }
        let name = there["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let written = objects
            .replace_status(&name, &PostParams::default(), &to_object(there)?)
            .await
            .map_err(|e| api_error(&e, false))?;
        to_value(&written)
    }

    async fn delete(&self, api: Api, key: &Key, version: &Version) -> Result<Version, ApiError> {
        let (revision, uid) = parts_of(version);
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let preconditions = Preconditions { resource_version: some(revision), uid: some(uid) };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let name = convert::object_name(key);
        self.objects(api, key)?.delete(&name, &parameters).await.map_err(|e| api_error(&e, false))?;
        Ok(version.clone())
    }

    fn ours(&self, api: Api, object: &Object) -> Result<Value, ApiError> {
        convert::write(object, api, &self.config.writer).map_err(|error| refused(&format!("{}: {error}", object.key())))
    }

    fn objects(&self, api: Api, key: &Key) -> Result<Objects, ApiError> {
        let client = self.connections.get(api).ok_or_else(|| refused("this daemon has no broker"))?;
        let resource = resource(key.kind);
        Ok(match self.config.writer.places.namespace_of(api, key) {
            Some(namespace) => KubeApi::namespaced_with(client.clone(), namespace, &resource),
            None => KubeApi::all_with(client.clone(), &resource),
        })
    }
}

fn refused(because: &str) -> ApiError {
    ApiError::Refused(Arc::from(because))
}

fn to_value(object: &DynamicObject) -> Result<Value, ApiError> {
    serde_json::to_value(object).map_err(|error| refused(&error.to_string()))
}

fn to_object(value: Value) -> Result<DynamicObject, ApiError> {
    serde_json::from_value(value).map_err(|error| refused(&error.to_string()))
}

/// What a failure means to a machine. A missing object is a change by others, unless it was to be created: then its
/// namespace is missing.
fn api_error(error: &kube::Error, creating: bool) -> ApiError {
    let kube::Error::Api(status) = error else {
        // The connection broke, or the answer cannot be understood: the write may have happened.
        return ApiError::Unreachable;
    };
    match status.code {
        404 if creating => refused(&status.message),
        404 | 409 => ApiError::Conflict,
        // Expired, too many requests, timeouts: later is fine.
        408 | 410 | 429 => ApiError::Unreachable,
        400..=499 => refused(&status.message),
        _ => ApiError::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn of(code: u16, creating: bool) -> ApiError {
        let status = Status { code, message: "told".into(), ..Status::default() };
        api_error(&kube::Error::Api(status.boxed()), creating)
    }

    #[test]
    fn a_missing_object_is_a_conflict_and_a_missing_namespace_is_a_refusal() {
        assert_eq!(of(404, false), ApiError::Conflict);
        assert_eq!(of(404, true), ApiError::Refused("told".into()));
    }

    #[test]
    fn only_what_will_not_help_to_repeat_is_refused() {
        for code in [400, 401, 403, 415, 422] {
            assert_eq!(of(code, false), ApiError::Refused("told".into()), "{code}");
        }
        for code in [408, 410, 429, 500, 503, 504] {
            assert_eq!(of(code, false), ApiError::Unreachable, "{code}");
        }
        assert_eq!(of(409, true), ApiError::Conflict);
        let broken = kube::Error::Service(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
        assert_eq!(api_error(&broken, false), ApiError::Unreachable);
    }
}
