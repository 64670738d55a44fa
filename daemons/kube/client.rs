//! The seam between the Kubernetes client and the network.

use crate::term::{term, timed};
use http::header::{self, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::Client;
use kube::client::Body;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tower::{BoxError, service_fn};

/// An unused connection is closed after this.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(30);

/// Why there can be no client.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ClientError {
    /// The address of the API names no scheme or no host.
    #[error("{0}: the address of an API has a scheme and a host")]
    NoHost(Uri),
    /// The name of the daemon cannot stand in a header.
    #[error("{0:?} cannot be a User-Agent")]
    UserAgent(String),
}

/// A client of the API at `base`, whose connections `connect` makes. Each request must be answered within
/// `answer_within` (a watch: begun).
///
/// To be called inside the runtime that runs the client, and, in the simulator, on the host that it belongs to: tasks are
/// spawned there.
///
/// # Errors
/// [`ClientError`].
pub fn client<C, F, S>(connect: C, base: &Uri, user_agent: &str, answer_within: Duration) -> Result<Client, ClientError>
where
    C: Fn(Uri) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = io::Result<S>> + Send + 'static,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (Some(scheme), Some(authority)) = (base.scheme().cloned(), base.authority().cloned()) else {
        return Err(ClientError::NoHost(base.clone()));
    };
    let prefix = base.path().trim_end_matches('/').to_owned();
    let agent = HeaderValue::from_str(user_agent).map_err(|_| ClientError::UserAgent(user_agent.to_owned()))?;
    let connector = service_fn(move |uri: Uri| {
        let connecting = connect(uri);
        // Boxed: the pool wants a future that can be moved.
        Box::pin(async move { Ok::<_, io::Error>(Piped(TokioIo::new(connecting.await?))) })
    });
    let http = legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_MAX)
        .build::<_, Body>(connector);
    let service = service_fn(move |mut request: Request<Body>| {
        let http = http.clone();
        let uri = whole_uri(&scheme, &authority, &prefix, request.uri());
        let term = term(&request);
        request.headers_mut().insert(header::USER_AGENT, agent.clone());
        async move {
            *request.uri_mut() = uri?;
            match tokio::time::timeout(answer_within, http.request(request)).await {
                Ok(response) => response.map(|response| timed(response, term)).map_err(BoxError::from),
                Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        }
    });
    Ok(Client::new(service, "default"))
}

fn whole_uri(scheme: &Scheme, authority: &Authority, prefix: &str, asked: &Uri) -> Result<Uri, BoxError> {
    let path = asked.path_and_query().map_or("/", PathAndQuery::as_str);
    let uri = Uri::builder()
        .scheme(scheme.clone())
        .authority(authority.clone())
        .path_and_query(format!("{prefix}{path}"))
        .build()?;
    Ok(uri)
}

/// Any stream as a connection of the pool.
struct Piped<S>(TokioIo<S>);

impl<S> Connection for Piped<S> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl<S: AsyncRead + Unpin> Read for Piped<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> Write for Piped<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
