//! What lives in a place beside real processes: a thread with a tokio runtime of its own. Dropping it ends all its tasks
//! at once and closes their sockets, as the end of a process does.

use std::future::Future;
use std::io;
use std::thread::JoinHandle;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tombolo_linux::Place;

/// See the module docs.
pub(crate) struct Process {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<io::Result<io::Result<()>>>>,
}

impl Process {
    /// Starts it in a place. What `live` gives is its life; tasks that it spawns live as long.
    pub(crate) fn start<F: Future<Output = ()> + 'static>(
        place: &Place,
        live: impl FnOnce() -> F + Send + 'static,
    ) -> io::Result<Self> {
        let (end, ended) = oneshot::channel::<()>();
        let thread = place.beside(move || {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            LocalSet::new().block_on(&runtime, async move {
                tokio::select! {
                    () = async move { live().await } => {}
                    _ = ended => {}
                }
            });
            Ok(())
        })?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.end.take());
        // What it panicked of was told by then.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
