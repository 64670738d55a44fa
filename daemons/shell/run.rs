//! The loop.

use crate::hands::Hands;
use crate::record::{Record, Step};
use core::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant as TokioInstant, sleep_until};
use tombolo_core::base::{Instant, drain};
use tombolo_core::roles::{Input, Output, Role};

/// How often the machine is told the wall-clock time.
pub const WALL_EVERY: Duration = Duration::from_secs(1);

/// The monotonic clock of one process: time since its start, from tokio, so that a paused runtime pauses it.
#[derive(Clone, Copy, Debug)]
struct Clock(TokioInstant);

impl Clock {
    fn now(self) -> Instant {
        Instant::from_origin(TokioInstant::now() - self.0)
    }

    /// `None` lies too far ahead to be waited for.
    fn tokio(self, at: Instant) -> Option<TokioInstant> {
        self.0.checked_add(at.since_origin())
    }
}

/// Runs a daemon until all clones of its inbox are gone, or until this future is dropped. The machine's clock starts at
/// [`Instant::ZERO`] with the call. Gives the machine back as it was at the end.
pub async fn run<R: Role>(
    mut machine: R,
    mut hands: Hands,
    mut inputs: UnboundedReceiver<Input>,
    mut record: Option<Box<dyn Record>>,
) -> R {
    let clock = Clock(TokioInstant::now());
    hands.kube.watch(machine.watches());
    let mut next_wall = Instant::ZERO;
    loop {
        let now = clock.now();
        wake_due(&mut machine, &mut hands, &mut record, now);
        if next_wall <= now {
            next_wall = now + WALL_EVERY;
            let wall = Input::Wall(hands.wall.now());
            step(&mut machine, &mut hands, &mut record, Step::Input(wall), now);
            continue;
        }
        let deadline = machine.poll_timeout().map_or(next_wall, |(at, _)| at.min(next_wall));
        let deadline = clock.tokio(deadline).unwrap_or_else(|| TokioInstant::now() + WALL_EVERY);
        tokio::select! {
            biased;
            () = sleep_until(deadline) => {}
            input = inputs.recv() => {
                let Some(input) = input else { return machine };
                let now = clock.now();
                wake_due(&mut machine, &mut hands, &mut record, now);
                step(&mut machine, &mut hands, &mut record, Step::Input(input), now);
            }
        }
    }
}

/// Timers that are due go first.
fn wake_due<R: Role>(machine: &mut R, hands: &mut Hands, record: &mut Option<Box<dyn Record>>, now: Instant) {
    if machine.poll_timeout().is_some_and(|(at, _)| at <= now) {
        step(machine, hands, record, Step::Wake, now);
    }
}

/// One change, then drain.
fn step<R: Role>(machine: &mut R, hands: &mut Hands, record: &mut Option<Box<dyn Record>>, step: Step, now: Instant) {
    let noted = record.is_some().then(|| step.clone());
    match step {
        Step::Input(input) => machine.handle(input, now),
        Step::Wake => machine.handle_timeout(now),
    }
    let outputs = drain(machine);
    if let (Some(record), Some(noted)) = (record, noted) {
        record.step(now, &noted, &outputs);
    }
    for output in outputs {
        carry_out(hands, output);
    }
}

fn carry_out(hands: &mut Hands, output: Output) {
    match output {
        Output::Read(id, api, key) => hands.kube.read(id, api, key),
        Output::Write(id, api, write) => hands.kube.write(id, api, write),
        Output::Send { via, to, bytes } => hands.net.send(via, to, bytes),
        Output::Probe { to, sealed, bytes } => hands.nat.probe(to, sealed, bytes),
        Output::LookUp => hands.nat.look_up(),
        Output::Network(wanted) => hands.kernel.apply(wanted),
        Output::Dns(table) => hands.zone.swap(table),
        Output::Event(event) => hands.journal.tell(event),
    }
}
