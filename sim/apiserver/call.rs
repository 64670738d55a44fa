//! What a request asks for: path and query, parsed once at the edge.

use crate::{Failure, KindSpec, Reason, Registry};
use http::Method;
use percent_encoding::percent_decode_str;

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many.
    List,
    /// Follow changes.
    Watch,
    /// Make one.
    Create,
    /// Write one as a whole.
    Replace,
    /// Change parts of one.
    Patch(PatchKind),
    /// Remove one.
    Delete,
    /// Remove all that are selected.
    DeleteAll,
}

/// How the body of a patch is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatchKind {
    /// RFC 7386.
    Merge,
    /// Server-side apply.
    Apply,
}

/// Which objects are meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// Their kind.
    pub spec: KindSpec,
    /// Version of the path: answers carry it.
    pub version: String,
    /// Namespace; empty = all, or none for what is cluster-scoped.
    pub namespace: String,
    /// Name of the one object.
    pub name: Option<String>,
    /// The status subresource.
    pub status: bool,
}

/// The query parameters a server looks at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Query {
    /// `watch`.
    pub watch: bool,
    /// `resourceVersion`; an empty one is none.
    pub resource_version: Option<String>,
    /// `resourceVersionMatch=Exact`.
    pub exact: bool,
    /// `limit`; 0 is none.
    pub limit: Option<usize>,
    /// `continue`; an empty one is none.
    pub continue_token: Option<String>,
    /// `labelSelector`.
    pub labels: Option<String>,
    /// `fieldSelector`.
    pub fields: Option<String>,
    /// `timeoutSeconds`.
    pub timeout_secs: Option<u64>,
    /// `allowWatchBookmarks`.
    pub bookmarks: bool,
    /// `sendInitialEvents`.
    pub initial_events: bool,
    /// `fieldManager`.
    pub field_manager: Option<String>,
    /// `force`.
    pub force: bool,
}

/// A parsed request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// What to do.
    pub verb: Verb,
    /// With what.
    pub target: Target,
    /// How.
    pub query: Query,
}

impl Call {
    /// Reads a request line.
    ///
    /// # Errors
    /// `NotFound` for a path that is served by nothing, `MethodNotAllowed`, `UnsupportedMediaType` for a patch of
    /// another kind, `BadRequest` for a parameter that cannot be read.
    pub fn parse(
        registry: &Registry,
        method: &Method,
        path: &str,
        query: &str,
        content_type: &str,
    ) -> Result<Self, Failure> {
        let target = Target::parse(registry, path)?;
        let query = Query::parse(query)?;
        let verb = match (method.as_str(), target.name.is_some()) {
            ("GET", _) if query.watch => Verb::Watch,
            ("GET", true) => Verb::Get,
            ("GET", false) => Verb::List,
            ("POST", false) => Verb::Create,
            ("PUT", true) => Verb::Replace,
            ("PATCH", true) => Verb::Patch(patch_kind(content_type)?),
            ("DELETE", true) => Verb::Delete,
            ("DELETE", false) => Verb::DeleteAll,
            _ => return Err(Failure::new(Reason::MethodNotAllowed, format!("{method} is not supported on {path}"))),
        };
        Ok(Self { verb, target, query })
    }
}

fn patch_kind(content_type: &str) -> Result<PatchKind, Failure> {
    match content_type.split(';').next().unwrap_or_default().trim() {
        "application/merge-patch+json" => Ok(PatchKind::Merge),
        "application/apply-patch+yaml" => Ok(PatchKind::Apply),
        other => Err(Failure::new(
            Reason::UnsupportedMediaType,
            format!("the body of the patch was in an unknown format ({other}): merge-patch+json and apply-patch+yaml"),
        )),
    }
}

impl Target {
    /// Reads `/api/v1/…` and `/apis/GROUP/VERSION/…`.
    fn parse(registry: &Registry, path: &str) -> Result<Self, Failure> {
        let nothing = || Failure::new(Reason::NotFound, "the server could not find the requested resource");
        let segments: Vec<String> = path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
            .collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Err(nothing()),
        };
        let (namespace, rest) = match rest {
            // `namespaces` is a kind too: /namespaces/shop and /namespaces/shop/status are about the namespace itself.
            ["namespaces", namespace, tail @ ..] if !matches!(tail, [] | ["status"]) => (*namespace, tail),
            _ => ("", rest),
        };
        let (plural, name, status) = match rest {
            [plural] => (*plural, None, false),
            [plural, name] => (*plural, Some((*name).to_owned()), false),
            [plural, name, "status"] => (*plural, Some((*name).to_owned()), true),
            _ => return Err(nothing()),
        };
        let spec = registry.by_plural(group, plural).ok_or_else(nothing)?;
        let served = spec.versions.iter().any(|served| served == version);
        let placed = if spec.namespaced { name.is_none() || !namespace.is_empty() } else { namespace.is_empty() };
        if !served || !placed || (status && !spec.status) {
            return Err(nothing());
        }
        Ok(Self { spec: spec.clone(), version: version.into(), namespace: namespace.into(), name, status })
    }

    /// As messages name it: `leases.coordination.k8s.io "x"`.
    pub(crate) fn describe(&self) -> String {
        match &self.name {
            Some(name) => format!("{} {name:?}", self.spec.resource()),
            None => self.spec.resource(),
        }
    }
}

impl Query {
    fn parse(text: &str) -> Result<Self, Failure> {
        let mut query = Self::default();
        let some = |value: &str| Some(value.to_owned()).filter(|value| !value.is_empty());
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            let truth = matches!(&*value, "true" | "1");
            match &*name {
                "watch" => query.watch = truth,
                "resourceVersion" => query.resource_version = some(&value),
                "resourceVersionMatch" => query.exact = value == "Exact",
                "limit" => query.limit = Some(number(&name, &value)?).filter(|limit| *limit > 0),
                "continue" => query.continue_token = some(&value),
                "labelSelector" => query.labels = some(&value),
                "fieldSelector" => query.fields = some(&value),
                "timeoutSeconds" => query.timeout_secs = Some(number(&name, &value)?),
                "allowWatchBookmarks" => query.bookmarks = truth,
                "sendInitialEvents" => query.initial_events = truth,
                "fieldManager" => query.field_manager = some(&value),
                "force" => query.force = truth,
                _ => {}
            }
        }
        Ok(query)
    }
}

fn number<N: std::str::FromStr>(name: &str, value: &str) -> Result<N, Failure> {
    value.parse().map_err(|_| Failure::new(Reason::BadRequest, format!("{name}: {value:?} is not a number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: Method, path: &str, query: &str) -> Result<Call, Failure> {
        Call::parse(&Registry::clusterset(), &method, path, query, "application/merge-patch+json")
    }

    #[test]
    fn paths_of_both_forms_are_read() {
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x";
        let call = parse(Method::PUT, lease, "").unwrap();
        assert_eq!((call.verb, call.target.namespace.as_str()), (Verb::Replace, "kube-system"));
        assert_eq!(call.target.describe(), "leases.coordination.k8s.io \"x\"");
        let call = parse(Method::GET, "/api/v1/nodes", "&watch=true&timeoutSeconds=20&resourceVersion=").unwrap();
        assert_eq!((call.verb, call.query.timeout_secs, call.query.resource_version), (Verb::Watch, Some(20), None));
        assert!(parse(Method::GET, "/api/v1/namespaces/shop", "").unwrap().target.namespace.is_empty());
        assert!(parse(Method::PUT, "/api/v1/namespaces/shop/status", "").unwrap().target.status);
    }

    #[test]
    fn both_versions_of_the_mcs_api_are_served_and_others_are_not() {
        let path = |version: &str| format!("/apis/multicluster.x-k8s.io/{version}/serviceimports");
        assert!(parse(Method::GET, &path("v1alpha1"), "").is_ok());
        assert!(parse(Method::GET, &path("v1beta1"), "").is_ok());
        assert_eq!(parse(Method::GET, &path("v2"), "").unwrap_err().reason, Reason::NotFound);
    }

    #[test]
    fn what_no_kind_has_is_not_found() {
        let missing = |path| parse(Method::GET, path, "").unwrap_err().reason;
        assert_eq!(missing("/apis/submariner.io/v1/namespaces/x/gateways/a/status"), Reason::NotFound);
        assert_eq!(missing("/api/v1/services/web"), Reason::NotFound);
        assert_eq!(missing("/api/v1/namespaces/x/nodes/n"), Reason::NotFound);
        assert_eq!(missing("/nowhere"), Reason::NotFound);
        assert_eq!(parse(Method::POST, "/api/v1/nodes/n", "").unwrap_err().reason, Reason::MethodNotAllowed);
        assert_eq!(parse(Method::GET, "/api/v1/nodes", "limit=x").unwrap_err().message, "limit: \"x\" is not a number");
    }
}
