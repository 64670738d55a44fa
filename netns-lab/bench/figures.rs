//! What came of measurements.

use core::fmt;
use serde::{Deserialize, Serialize};

/// Once: a round.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Carried {
    /// Mbit/s: one stream there, one back, four there, four back.
    pub rates: [f64; 4],
    /// Microseconds of a datagram there and back.
    pub trip: f64,
}

impl Carried {
    /// All numbers of a row, in order.
    fn row(self) -> [f64; 5] {
        let [a, b, c, d] = self.rates;
        [a, b, c, d, self.trip]
    }
}

/// One of those that were measured, one way.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// From whose pods to whose.
    pub way: String,
    /// By round.
    pub rounds: Vec<Carried>,
}

impl Measured {
    fn medians(&self) -> [f64; 5] {
        medians(self.rounds.iter().map(|carried| carried.row()))
    }

    /// Each round's ratio, of which the median: what else the machine did met both alike.
    fn ratios(&self, other: &Self) -> [f64; 5] {
        let pairs = self.rounds.iter().zip(&other.rounds);
        medians(pairs.map(|(own, other)| {
            let (own, other) = (own.row(), other.row());
            core::array::from_fn(|column| own[column] / other[column])
        }))
    }
}

fn medians(rows: impl Iterator<Item = [f64; 5]>) -> [f64; 5] {
    let rows: Vec<[f64; 5]> = rows.collect();
    core::array::from_fn(|column| {
        let mut values: Vec<f64> = rows.iter().map(|row| row[column]).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    })
}

/// All of it. As text it is a table for people.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// In order of being measured first.
    pub measured: Vec<Measured>,
}

/// Whose ratios to the others are told.
const OURS: &str = "tombolo";

impl Figures {
    pub(super) fn add(&mut self, name: &str, way: &str, carried: Carried) {
        match self.measured.iter_mut().find(|one| one.name == name && one.way == way) {
            Some(one) => one.rounds.push(carried),
            None => self.measured.push(Measured { name: name.into(), way: way.into(), rounds: vec![carried] }),
        }
    }

    /// The ways, in order.
    fn ways(&self) -> Vec<&str> {
        let mut ways: Vec<&str> = Vec::new();
        for one in &self.measured {
            if !ways.contains(&one.way.as_str()) {
                ways.push(&one.way);
            }
        }
        ways
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounds = self.measured.first().map_or(0, |one| one.rounds.len());
        let rounds = if rounds == 1 { "one round".to_owned() } else { format!("medians of {rounds} rounds in turns") };
        writeln!(f, "TCP from pod to pod in Mbit/s, and the round trip of a datagram; {rounds}")?;
        let head = ["1 there", "1 back", "4 there", "4 back", "trip us"].map(|head| format!("{head:>9}"));
        for way in self.ways() {
            writeln!(f, "\n{way:30}{}", head.concat())?;
            let of = |name: &str| self.measured.iter().find(|one| one.way == way && one.name == name);
            let all = self.measured.iter().filter(|one| one.way == way);
            for one in all.clone() {
                let cells = one.medians().map(|value| format!("{value:9.0}"));
                writeln!(f, "  {:28}{}", one.name, cells.concat())?;
            }
            let Some(ours) = of(OURS) else { continue };
            for other in all.filter(|one| one.name != OURS) {
                let cells = ours.ratios(other).map(|ratio| format!("{ratio:8.2}x"));
                writeln!(f, "  {:28}{}", format!("{OURS} to {}", other.name), cells.concat())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_rounds_and_not_of_medians() {
        let mut figures = Figures::default();
        // The machine was busy in the second round.
        for (round, speed) in [1.0, 0.1, 1.0].into_iter().enumerate() {
            for (name, rate, trip) in [("no cable", 8000.0, 30.0), ("tombolo", 2000.0, 90.0), ("other", 500.0, 120.0)] {
                let rates = [1.0, 1.1, 1.2, 1.3].map(|more| rate * more * speed);
                figures.add(
                    name,
                    "worker to worker",
                    Carried { rates, trip: trip + f64::from(u8::try_from(round).unwrap()) },
                );
            }
        }
        insta::assert_snapshot!(figures);
    }
}
