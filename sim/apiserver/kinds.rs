//! The kinds a server serves, as data.

use std::collections::BTreeMap;

/// One kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KindSpec {
    /// API group; empty for the core group.
    pub group: String,
    /// Served versions; all have one schema. The first is the one for objects made in process.
    pub versions: Vec<String>,
    /// Name in paths.
    pub plural: String,
    /// Name in objects.
    pub kind: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether `status` is a subresource: then it is written through `/status` and nowhere else.
    pub status: bool,
}

impl KindSpec {
    /// A namespaced kind without a status subresource.
    #[must_use]
    pub fn new(group: &str, versions: &[&str], plural: &str, kind: &str) -> Self {
        Self {
            group: group.into(),
            versions: versions.iter().map(|&version| version.into()).collect(),
            plural: plural.into(),
            kind: kind.into(),
            namespaced: true,
            status: false,
        }
    }

    /// Its objects live outside of namespaces.
    #[must_use]
    pub fn cluster_scoped(mut self) -> Self {
        self.namespaced = false;
        self
    }

    /// Its status is a subresource.
    #[must_use]
    pub fn with_status(mut self) -> Self {
        self.status = true;
        self
    }

    /// `apiVersion` of its objects in `version`.
    #[must_use]
    pub fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.into() } else { format!("{}/{version}", self.group) }
    }

    /// The version of objects made in process.
    #[must_use]
    pub fn first_version(&self) -> &str {
        self.versions.first().map_or("v1", String::as_str)
    }

    /// Whether it is not a custom resource.
    #[must_use]
    pub fn is_builtin(&self) -> bool {
        !self.group.contains('.') || (self.group.ends_with(".k8s.io") && !self.group.ends_with(".x-k8s.io"))
    }

    /// Whether a replace without `resourceVersion` is taken (true of some built-in kinds).
    #[must_use]
    pub fn allows_unconditional_update(&self) -> bool {
        matches!(self.group.as_str(), "" | "discovery.k8s.io")
    }

    /// As messages name it: `leases.coordination.k8s.io`.
    #[must_use]
    pub fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }
}

/// All kinds of a server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Registry(BTreeMap<(String, String), KindSpec>);

impl Registry {
    /// What any cluster has, as far as Tombolo looks at it.
    #[must_use]
    pub fn kubernetes() -> Self {
        Self::default()
            .with(KindSpec::new("", &["v1"], "namespaces", "Namespace").cluster_scoped().with_status())
            .with(KindSpec::new("", &["v1"], "nodes", "Node").cluster_scoped().with_status())
            .with(KindSpec::new("", &["v1"], "services", "Service").with_status())
            .with(KindSpec::new("", &["v1"], "pods", "Pod").with_status())
            .with(KindSpec::new("", &["v1"], "configmaps", "ConfigMap"))
            .with(KindSpec::new("discovery.k8s.io", &["v1"], "endpointslices", "EndpointSlice"))
            .with(KindSpec::new("coordination.k8s.io", &["v1"], "leases", "Lease"))
    }

    /// [`Self::kubernetes`] with the custom resources of a member of a clusterset: Submariner's, the MCS API's and
    /// `tombolo.dev`'s.
    #[must_use]
    pub fn clusterset() -> Self {
        let mcs = "multicluster.x-k8s.io";
        Self::kubernetes()
            .with(KindSpec::new("submariner.io", &["v1"], "clusters", "Cluster"))
            .with(KindSpec::new("submariner.io", &["v1"], "endpoints", "Endpoint"))
            .with(KindSpec::new("submariner.io", &["v1"], "gateways", "Gateway"))
            .with(KindSpec::new(mcs, &["v1beta1", "v1alpha1"], "serviceexports", "ServiceExport").with_status())
            .with(KindSpec::new(mcs, &["v1beta1", "v1alpha1"], "serviceimports", "ServiceImport").with_status())
            .with(KindSpec::new("tombolo.dev", &["v1alpha1"], "candidates", "Candidates"))
            .with(KindSpec::new("tombolo.dev", &["v1alpha1"], "claims", "Claims"))
            .with(KindSpec::new("tombolo.dev", &["v1alpha1"], "exports", "Export"))
            .with(KindSpec::new("tombolo.dev", &["v1alpha1"], "exportsummaries", "ExportSummary"))
    }

    /// With one more kind; one of the same group and plural is replaced.
    #[must_use]
    pub fn with(mut self, spec: KindSpec) -> Self {
        self.0.insert((spec.group.clone(), spec.plural.clone()), spec);
        self
    }

    /// The kind behind a path.
    #[must_use]
    pub fn by_plural(&self, group: &str, plural: &str) -> Option<&KindSpec> {
        self.0.get(&(group.to_owned(), plural.to_owned()))
    }

    /// The kind of an object.
    #[must_use]
    pub fn by_kind(&self, group: &str, kind: &str) -> Option<&KindSpec> {
        self.0.values().find(|spec| spec.group == group && spec.kind == kind)
    }

    /// All kinds, by group and plural.
    pub fn iter(&self) -> impl Iterator<Item = &KindSpec> {
        self.0.values()
    }
}
