//! The simulator: plays scenarios in a world whose only source of chance is a seed.
//!
//! ```text
//!              ┌── core_speed: machines driven directly, by a discrete-event loop ──┐
//!  Scenario ───┤                                                                    ├──> Fact
//!              └── full_speed: real shell and kube client on simulated sockets ─────┘
//!                         both stand on world: layout, kernels, fabric
//! ```

pub mod core_speed;
pub mod full_speed;
mod speed;
pub mod world;

pub use speed::{Speed, UnknownSpeed, WorldError};
