//! The APIs: how they are reached, and what has to be known of the own cluster first.

use crate::errors::Error;
use crate::settings::{BrokerSettings, Common};
use core::time::Duration;
use k8s_openapi::api::core::v1::Namespace;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::path::Path;
use tokio::time::sleep;
use tombolo_core::sync::REQUEST_DEADLINE;
use tombolo_kube::{Connections, remote};
use tracing::warn;

/// How often the own API is asked again for what a start needs.
const AGAIN: Duration = Duration::from_secs(2);

/// The clients of a daemon; the broker's, if it needs one.
///
/// # Errors
/// What is wrong with how they are to be reached.
pub async fn connect(common: &Common, broker: Option<&BrokerSettings>, user_agent: &str) -> Result<Connections, Error> {
    let wrong =
        |because: &dyn std::fmt::Display| Error::Access { whose: "the own cluster's", because: because.to_string() };
    let local = match &common.kubeconfig {
        Some(path) => from_file(path, "the own cluster's").await?,
        None => Config::incluster().map_err(|error| wrong(&format!("{error}; outside of a pod, give --kubeconfig")))?,
    };
    let broker = match broker {
        Some(settings) => Some(client(&broker_config(settings).await?, user_agent)?),
        None => None,
    };
    Ok(Connections { local: client(&local, user_agent)?, broker })
}

/// A client of whatever `config` leads to.
///
/// # Errors
/// What is wrong with it.
pub fn client(config: &Config, user_agent: &str) -> Result<Client, Error> {
    Ok(remote(config, user_agent, REQUEST_DEADLINE)?)
}

async fn from_file(path: &Path, whose: &'static str) -> Result<Config, Error> {
    let wrong = |because: String| Error::Access { whose, because: format!("{}: {because}", path.display()) };
    let read = Kubeconfig::read_from(path).map_err(|error| wrong(error.to_string()))?;
    Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.map_err(|error| wrong(error.to_string()))
}

async fn broker_config(settings: &BrokerSettings) -> Result<Config, Error> {
    if let Some(path) = &settings.broker_kubeconfig {
        return from_file(path, "the broker's").await;
    }
    let url = settings.broker_api.clone().unwrap_or_default();
    let wrong = |because: String| Error::Setting { flag: "broker-api", because };
    let parsed: http::Uri = url.parse().map_err(|error| wrong(format!("{url:?}: {error}")))?;
    if parsed.scheme().is_none() || parsed.host().is_none() {
        return Err(wrong(format!("{url:?} has no scheme or no host: as in https://broker:6443")));
    }
    let mut config = Config::new(parsed);
    if let Some(path) = &settings.broker_token_file {
        // It is read again as it is renewed; that it is there at all is looked at now.
        std::fs::metadata(path).map_err(|source| Error::File { path: path.clone(), source })?;
        config.auth_info = AuthInfo { token_file: Some(path.display().to_string()), ..AuthInfo::default() };
    }
    if let Some(path) = &settings.broker_ca_file {
        std::fs::metadata(path).map_err(|source| Error::File { path: path.clone(), source })?;
        config.root_cert_file = Some(path.clone());
    }
    Ok(config)
}

/// Which cluster this is: the UID of its namespace `kube-system`. Asks until the API says so; one that does not answer at
/// first is not waited for where `noted` holds what it said to a former process.
///
/// # Errors
/// If it cannot be noted.
pub async fn cluster_uid(local: &Client, noted: Option<&Path>) -> Result<String, Error> {
    let namespaces: kube::Api<Namespace> = kube::Api::all(local.clone());
    loop {
        match namespaces.get("kube-system").await {
            Ok(Namespace { metadata, .. }) => match metadata.uid {
                Some(uid) => {
                    if let Some(path) = noted {
                        std::fs::write(path, &uid).map_err(|source| Error::File { path: path.to_owned(), source })?;
                    }
                    return Ok(uid);
                }
                None => warn!("the namespace kube-system has no UID"),
            },
            Err(error) => {
                if let Some(Ok(uid)) = noted.map(std::fs::read_to_string) {
                    warn!(
                        "the own API does not show the namespace kube-system ({error}): going on with its UID of before"
                    );
                    return Ok(uid);
                }
                warn!("waiting for the own API to show the namespace kube-system: {error}");
            }
        }
        sleep(AGAIN).await;
    }
}
