//! What pods do: they answer, saying who they are, and they call.

pub mod answer;
pub mod call;
