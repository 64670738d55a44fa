//! HTTP/1.1 over any stream.

use crate::server::ApiServer;
use crate::watching::Watching;
use crate::{Call, Failure, Reason, Verb, documents};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::convert::Infallible;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::sleep;

/// Real servers refuse bodies above 3 MiB.
const BODY_BYTES_MAX: usize = 3 << 20;
/// So long a server waits for a revision that lies in the future.
const FUTURE_VERSION_WAIT: Duration = Duration::from_secs(3);

type Body = UnsyncBoxBody<Bytes, Infallible>;

impl ApiServer {
    /// Serves one connection until the client closes it or breaks the protocol. Dropping the future closes it.
    ///
    /// # Errors
    /// Of the stream or the protocol.
    pub async fn serve_connection<I>(self, io: I) -> Result<(), hyper::Error>
    where
        I: AsyncRead + AsyncWrite + Unpin,
    {
        let service = service_fn(move |request| {
            let server = self.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        // The Date header would be a clock of the machine.
        http1::Builder::new().auto_date_header(false).serve_connection(TokioIo::new(io), service).await
    }

    async fn answer(self, request: Request<Incoming>) -> Response<Body> {
        let faults = self.faults();
        if faults.silent {
            return std::future::pending().await;
        }
        let response = if faults.erroring {
            failed(&Failure::new(Reason::InternalError, "the server is broken on purpose"))
        } else {
            match self.respond(request).await {
                Ok(response) => response,
                Err(failure) => {
                    if failure.reason == Reason::TooLargeVersion {
                        sleep(FUTURE_VERSION_WAIT).await;
                    }
                    failed(&failure)
                }
            }
        };
        if !faults.slow.is_zero() {
            sleep(faults.slow).await;
        }
        response
    }

    async fn respond(self, request: Request<Incoming>) -> Result<Response<Body>, Failure> {
        let (head, body) = request.into_parts();
        let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let who = header(header::USER_AGENT).to_owned();
        if let Some(document) = documents::find(&self.state().registry, head.uri.path()) {
            return Ok(json_response(StatusCode::OK, &document));
        }
        let registry = self.state().registry.clone();
        let query = head.uri.query().unwrap_or_default();
        let call = Call::parse(&registry, &head.method, head.uri.path(), query, header(header::CONTENT_TYPE))?;
        if call.verb == Verb::Watch {
            let lines = Watching::open(&self, &call)?.into_stream().map(|line| line.map(Frame::data));
            let response = Response::new(StreamBody::new(lines).boxed_unsync());
            return Ok(typed(response));
        }
        let body = Limited::new(body, BODY_BYTES_MAX)
            .collect()
            .await
            .map_err(|error| Failure::new(Reason::BadRequest, format!("the body cannot be read: {error}")))?
            .to_bytes();
        let body = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&body)
                .map_err(|error| Failure::new(Reason::BadRequest, format!("the body is no JSON: {error}")))?
        };
        let (code, object) = self.carry_out_in_time(who, call, body).await?;
        Ok(json_response(StatusCode::from_u16(code).unwrap_or(StatusCode::OK), &object))
    }

    async fn carry_out_in_time(self, who: String, call: Call, body: Value) -> Result<(u16, Value), Failure> {
        let late = self.faults().slow_deletes;
        if late.is_zero() || !matches!(call.verb, Verb::Delete | Verb::DeleteAll) {
            return self.carry_out(&who, &call, body);
        }
        // On a task of its own: it happens even if the client goes away meanwhile.
        let deletion = tokio::spawn(async move {
            sleep(late).await;
            self.carry_out(&who, &call, body)
        });
        deletion.await.unwrap_or_else(|_| Err(Failure::new(Reason::InternalError, "the server is going down")))
    }
}

fn failed(failure: &Failure) -> Response<Body> {
    let code = StatusCode::from_u16(failure.reason.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    json_response(code, &failure.to_status())
}

fn json_response(code: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())).boxed_unsync());
    *response.status_mut() = code;
    typed(response)
}

fn typed(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
