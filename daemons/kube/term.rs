//! The term of a watch: for how long it was asked to last.
//!
//! kube takes a watch that ends for one whose time is over, whatever ended it, and goes on from the last version it saw.
//! But an API server that ends a watch early restarts, or the network between broke; and after a restart from an old
//! backup the versions that follow may stand for something else, so that what came before them is never seen (as etcd's
//! own guide to restoring a cluster warns). Here an early end becomes an error, after which everything is listed anew.

use http::{Request, Response};
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tower::BoxError;

/// The server's clock begins before ours: so much before its time a watch may end.
const SLACK: Duration = Duration::from_secs(1);

/// Why a watch is of no more use.
#[derive(Debug, thiserror::Error)]
#[error("the watch ended {early:?} before its time{}", because.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
pub(crate) struct EndedEarly {
    early: Duration,
    /// In words only: kube would take an end of file for the end of the watch's time.
    because: Option<String>,
}

/// How long the watch lasts that `request` asks for, if it is one.
pub(crate) fn term<B>(request: &Request<B>) -> Option<Duration> {
    let value = |name| request.uri().query()?.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let seconds = value("timeoutSeconds")?.parse().ok()?;
    value("watch").is_some_and(|watch| watch != "false" && watch != "0").then(|| Duration::from_secs(seconds))
}

/// The body of the answer, which is told if it ends before its `term`, unless the watch was refused. To be called when the
/// answer begins.
pub(crate) fn timed<B>(response: Response<B>, term: Option<Duration>) -> Response<Timed<B>> {
    let due = term.filter(|_| response.status().is_success()).map(|term| Instant::now() + term.saturating_sub(SLACK));
    response.map(|body| Timed { body, due })
}

/// See [`timed`].
#[derive(Debug)]
pub(crate) struct Timed<B> {
    body: B,
    /// When it may end; `None`: whenever it likes, or it has been told.
    due: Option<Instant>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Timed<B>
where
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = core::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        let ended = match frame {
            Some(Ok(frame)) => return Poll::Ready(Some(Ok(frame))),
            Some(Err(error)) => Some(error.into()),
            None => None,
        };
        let early = self.due.take().map(|due| due.saturating_duration_since(Instant::now()));
        Poll::Ready(match (early, ended) {
            (Some(early), ended) if !early.is_zero() => {
                Some(Err(EndedEarly { early, because: ended.map(|error| error.to_string()) }.into()))
            }
            (_, ended) => ended.map(Err),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.due.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term_of(uri: &str) -> Option<u64> {
        term(&Request::get(uri).body(()).unwrap()).map(|term| term.as_secs())
    }

    #[test]
    fn only_a_watch_has_a_term() {
        assert_eq!(term_of("/api/v1/pods?&watch=true&timeoutSeconds=17&resourceVersion=5"), Some(17));
        assert_eq!(term_of("/api/v1/pods?timeoutSeconds=17&watch=1"), Some(17));
        for other in ["/api/v1/pods", "/api/v1/pods?timeoutSeconds=17", "/api/v1/pods?watch=false&timeoutSeconds=1"] {
            assert_eq!(term_of(other), None, "{other}");
        }
    }
}
