//! Kept messages that are damaged or hostile, and what becomes of each on the answering and on the asking side.

use super::*;

const CORPUS: &str = include_str!("corpus.txt");

/// What is wrong with a message, and its bytes.
fn corpus() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    CORPUS.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (wrong, hex) = line.split_once(": ").unwrap_or_else(|| (line.trim_end_matches(':'), ""));
        let byte = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap();
        (wrong, hex.as_bytes().chunks(2).map(byte).collect())
    })
}

#[test]
fn each_kept_message_has_the_outcome_that_is_kept() {
    let (table, mut picks) = (world("east").table(), Picks::default());
    let mut told = String::new();
    for (wrong, bytes) in corpus() {
        let answered = respond(&table, &bytes, &mut picks);
        let answered =
            answered.map_or_else(|| String::from("dropped"), |reply| dig(&reply).trim_end().replace('\n', "\n    "));
        let read = match reading(&bytes) {
            Ok(reading) => format!("{} {:?}", reading.rcode, reading.addresses),
            Err(bad) => bad.to_string(),
        };
        told += &format!("{wrong}\n    {answered}\n    as a reply: {read}\n");
    }
    insta::assert_snapshot!(told);
}

#[test]
fn after_each_kept_message_the_next_good_one_is_answered() {
    let (table, mut picks) = (world("east").table(), Picks::default());
    assert!(corpus().count() >= 50);
    for (wrong, bytes) in corpus() {
        let over_both = [respond(&table, &bytes, &mut picks), respond_on_stream(&table, &bytes, &mut picks)];
        for reply in over_both.into_iter().flatten() {
            assert_eq!(reply.get(..2), bytes.get(..2), "{wrong}");
        }
        let good = respond(&table, &question(8, WEB, RecordKind::A).unwrap(), &mut picks).unwrap();
        assert_eq!(reading(&good).unwrap().addresses, ["10.102.0.10".parse::<core::net::IpAddr>().unwrap()], "{wrong}");
    }
}
