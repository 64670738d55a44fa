//! A client of an API over TCP and TLS, as a kubeconfig or the pod's service account describes it.

use crate::client::IDLE_MAX;
use crate::dial::dial;
use crate::term::{term, timed};
use http::header::{self, HeaderValue};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use std::time::Duration;
use tower::timeout::TimeoutLayer;
use tower::{Service as _, ServiceBuilder, service_fn};

/// Why there can be no such client.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The certificates, or how to say who one is.
    #[error("the API at {url}: {source}")]
    Config {
        /// Which API.
        url: http::Uri,
        /// What is wrong.
        source: Box<kube::Error>,
    },
    /// The name of the daemon cannot stand in a header.
    #[error("{0:?} cannot be a User-Agent")]
    UserAgent(String),
}

/// A client of the API that `config` describes. Each request must be answered within `answer_within` (a watch: begun). A
/// connection that is cut is noticed soon (`dial`), also where nothing is sent.
///
/// # Errors
/// [`RemoteError`].
pub fn remote(config: &Config, user_agent: &str, answer_within: Duration) -> Result<Client, RemoteError> {
    let agent = HeaderValue::from_str(user_agent).map_err(|_| RemoteError::UserAgent(user_agent.to_owned()))?;
    let wrong = |source| RemoteError::Config { url: config.cluster_url.clone(), source: Box::new(source) };
    // Boxed: the pool wants a future that can be moved.
    let tcp = service_fn(move |uri| Box::pin(dial(uri, answer_within)));
    let connector = config.rustls_https_connector_with_connector(tcp).map_err(wrong)?;
    let http = legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_MAX)
        .build::<_, Body>(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(wrong)?)
        .layer(config.extra_headers_layer().map_err(wrong)?)
        .layer(TimeoutLayer::new(answer_within))
        .map_request(move |mut request: http::Request<Body>| {
            request.headers_mut().insert(header::USER_AGENT, agent.clone());
            request
        })
        .service_fn(move |request: http::Request<Body>| {
            let (term, answer) = (term(&request), http.clone().call(request));
            async move { answer.await.map(|response| timed(response, term)) }
        });
    Ok(Client::new(service, config.default_namespace.clone()))
}
