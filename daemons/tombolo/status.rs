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
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::task::{JoinSet, spawn_local};
use tokio::time::{sleep, timeout};
use tracing::warn;

/// Who asks has so long to say what.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections at once: a prober, a few Prometheus.
const GUESTS: usize = 32;

/// Opens the port, and answers for as long as the runtime lives. Gives the address.
///
/// # Errors
/// If the port cannot be had.
pub async fn serve(at: SocketAddr, vitals: Vitals) -> Result<SocketAddr, Error> {
    let failed = |source| Error::Socket { what: format!("TCP {at}, for metrics and health"), source };
    let listener = TcpListener::bind(at).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    spawn_local(accept(listener, vitals));
    Ok(address)
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
