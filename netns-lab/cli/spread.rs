//! What was measured in several runs of one scenario, put together.

use crate::keeper::Played;
use core::fmt;
use serde_json::Value;
use tombolo_scenarios::Judgement;

/// By expectation, what each run measured, in milliseconds. As text it is a table for people.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Spread {
    runs: usize,
    failed: usize,
    measured: Vec<(String, Vec<f64>)>,
}

impl Spread {
    /// Another run.
    pub(super) fn add(&mut self, played: &Played) {
        self.runs += 1;
        self.failed += usize::from(played.judgement == Judgement::Failed);
        for verdict in played.report.get("verdicts").and_then(Value::as_array).into_iter().flatten() {
            let expectation = verdict.get("expectation").and_then(Value::as_str);
            let measured = verdict.get("measured_ms").and_then(Value::as_f64);
            if let Some((expectation, measured)) = expectation.zip(measured) {
                self.put(expectation, measured);
            }
        }
    }

    fn put(&mut self, expectation: &str, measured: f64) {
        match self.measured.iter_mut().find(|(known, _)| known == expectation) {
            Some((_, all)) => all.push(measured),
            None => self.measured.push((expectation.to_owned(), vec![measured])),
        }
    }
}

/// The least of sorted values that so many of a hundred are not above.
fn within(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} runs, {} failed; of what they measured, in ms:", self.runs, self.failed)?;
        let head = ["least", "median", "90 %", "most", "runs"].map(|head| format!("{head:>8}"));
        writeln!(f, " {}  expectation", head.concat())?;
        for (expectation, all) in &self.measured {
            let mut sorted = all.clone();
            sorted.sort_by(f64::total_cmp);
            let cells = [0, 50, 90, 100].map(|percent| format!("{:8.0}", within(&sorted, percent)));
            writeln!(f, " {}{:8}  {expectation}", cells.concat(), all.len())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_tells_how_many_were_within_what() {
        let mut spread = Spread { runs: 20, failed: 1, ..Spread::default() };
        (1..=20_u32)
            .rev()
            .for_each(|run| spread.put("during 20s..60s: outage a to b at most 1s", f64::from(run) * 10.0));
        spread.put("by 10s: a connects to b", 200.0);
        insta::assert_snapshot!(spread);
    }
}
