//! `/metrics`, `/healthz` and `/readyz`.

use crate::errors::Error;
use crate::vitals::Vitals;
use core::convert::Infallible;
use core::time::Duration;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;
use tokio::task::{JoinSet, spawn_local};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

/// Who asks has so long to say what.
const PATIENCE: Duration = Duration::from_secs(5);
/// A port that somebody else has is tried again after this.
const AGAIN: Duration = Duration::from_secs(1);
/// Connections at once: a prober, a few Prometheus.
const GUESTS: usize = 32;

/// Opens the port at the first of these addresses where it can be had, and answers for as long as the runtime lives. Gives
/// that address; or none, if somebody else has the port at the moment: then it is tried again and again, and the daemon
/// does its work meanwhile. The ports that people know from Submariner are among those that the kernel gives to whoever
/// dials out.
///
/// # Errors
/// If the port cannot be had for another reason.
pub async fn serve(addresses: Vec<SocketAddr>, vitals: Vitals) -> Result<Option<SocketAddr>, Error> {
    match open(&addresses).await {
        Ok(listener) => {
            let address = listener.local_addr().ok();
            spawn_local(accept(listener, vitals));
            Ok(address)
        }
        Err((at, source)) if source.kind() == ErrorKind::AddrInUse => {
            warn!("TCP {at}, for metrics and health, is somebody else's at the moment");
            spawn_local(async move {
                let listener = loop {
                    sleep(AGAIN).await;
                    if let Ok(listener) = open(&addresses).await {
                        break listener;
                    }
                };
                info!("metrics and health are served now");
                accept(listener, vitals).await;
            });
            Ok(None)
        }
        Err((at, source)) => Err(Error::Socket { what: format!("TCP {at}, for metrics and health"), source }),
    }
}

/// The first port that can be had, or why the last cannot.
async fn open(addresses: &[SocketAddr]) -> Result<TcpListener, (SocketAddr, io::Error)> {
    let mut outcome = Err(((Ipv4Addr::UNSPECIFIED, 0).into(), ErrorKind::AddrNotAvailable.into()));
    for at in addresses {
        outcome = TcpListener::bind(*at).await.map_err(|error| (*at, error));
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

async fn accept(listener: TcpListener, vitals: Vitals) {
    let mut guests = JoinSet::new();
    loop {
        while guests.len() >= GUESTS {
            guests.join_next().await;
        }
        while guests.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let vitals = vitals.clone();
                guests.spawn_local(async move {
                    let answer = service_fn(move |request| {
                        let response = answer(&request, &vitals);
                        async move { Ok::<_, Infallible>(response) }
                    });
                    let mut http = http1::Builder::new();
                    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(true);
                    // Whoever asks badly, or not at all, is let go.
                    let _ = timeout(PATIENCE * 12, http.serve_connection(TokioIo::new(stream), answer)).await;
                });
            }
            Err(error) => {
                warn!("metrics and health: {error}");
                sleep(PATIENCE).await;
            }
        }
    }
}

fn answer(request: &Request<Incoming>, vitals: &Vitals) -> Response<Full<Bytes>> {
    match request.uri().path() {
        "/metrics" => match vitals.metrics() {
            Ok(text) => {
                let mut response = say(StatusCode::OK, text);
                let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
                response
            }
            Err(error) => say(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
        "/healthz" | "/livez" => truth(vitals.is_alive(), "alive", "the loop hangs"),
        "/readyz" => truth(vitals.is_ready(), "ready", "not ready yet"),
        path => say(StatusCode::NOT_FOUND, format!("there is no {path}: /metrics, /healthz, /readyz\n")),
    }
}

fn truth(so: bool, yes: &str, no: &str) -> Response<Full<Bytes>> {
    if so { say(StatusCode::OK, format!("{yes}\n")) } else { say(StatusCode::SERVICE_UNAVAILABLE, format!("{no}\n")) }
}

fn say(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response
}
