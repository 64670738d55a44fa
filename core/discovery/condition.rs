//! What a ServiceExport says about itself (MCS API, `status.conditions`).

use super::{Conflict, LeftOut, NotExportable};
use crate::base::Wall;
use crate::model::{Condition, ConditionType};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// How far an export has come at the broker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Published {
    /// Nobody knows: the broker has not been seen yet.
    Unknown,
    /// Not yet.
    Pending,
    /// The broker refuses it, for this reason.
    Refused(String),
    /// It is there, and the exports of its name disagree like this.
    There(Vec<Conflict>),
}

/// Longest message of a condition, in characters (`metav1.Condition`). What others say may be longer.
const MESSAGE_MAX: usize = 32_768;

type Conditions = BTreeMap<ConditionType, Condition>;

/// The conditions of an export that is carried out so far, without what is `left_out`, or not and why, given those that it
/// `had`. What is not known is left as it was, and so is the time of a status that stays.
#[must_use]
pub fn conditions(
    exported: Result<&[LeftOut], &NotExportable>,
    published: &Published,
    had: &Conditions,
    now: Wall,
) -> Conditions {
    let mut conditions = Conditions::new();
    // The API knows whole seconds.
    let now = Wall::from_unix_secs(now.unix_secs());
    let mut say = |about: ConditionType, status: Option<bool>, reason: &str, message: String| {
        let had = had.get(&about).filter(|had| had.status == status);
        let since = had.map_or(now, |had| had.since);
        conditions.insert(about, Condition { status, reason: reason.to_owned(), message, since });
    };
    let left_out = match exported {
        Ok(left_out) => left_out,
        Err(why) => {
            let reason = match why {
                NotExportable::NoService { .. } => "NoService",
                NotExportable::ExternalName { .. } => "InvalidServiceType",
            };
            say(ConditionType::Valid, Some(false), reason, why.to_string());
            say(ConditionType::Ready, Some(false), "Pending", "not exported: see Valid".into());
            return conditions;
        }
    };
    say(ConditionType::Valid, Some(true), "Valid", lines(left_out));
    match published {
        Published::Unknown => {
            let kept = [ConditionType::Ready, ConditionType::Conflict];
            conditions.extend(kept.into_iter().filter_map(|kept| Some((kept, had.get(&kept)?.clone()))));
        }
        Published::Pending => say(ConditionType::Ready, Some(false), "Pending", "not at the broker yet".into()),
        Published::Refused(why) => say(ConditionType::Ready, Some(false), "Failed", cut(why)),
        Published::There(conflicts) => {
            say(ConditionType::Ready, Some(true), "Exported", String::new());
            let reasons: Vec<&str> = conflicts.iter().map(|conflict| conflict.property.reason()).collect();
            if conflicts.is_empty() {
                say(ConditionType::Conflict, Some(false), "NoConflicts", String::new());
            } else {
                say(ConditionType::Conflict, Some(true), &reasons.join(","), lines(conflicts));
            }
        }
    }
    conditions
}

/// One line each.
fn lines<T: ToString>(facts: &[T]) -> String {
    cut(&facts.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

fn cut(message: &str) -> String {
    message.chars().take(MESSAGE_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;
    use crate::discovery::conflicts;
    use crate::model::{ExportRecord, Family, InternalTrafficPolicy, ServiceType, SessionAffinity};
    use alloc::format;
    use alloc::sync::Arc;
    use alloc::vec;

    const NOW: Wall = Wall::from_unix_secs(2_000);

    fn texts(conditions: &Conditions) -> Vec<String> {
        let status = |status: Option<bool>| status.map_or("Unknown", |yes| if yes { "True" } else { "False" });
        let text = |(about, condition): (&ConditionType, &Condition)| {
            let Condition { reason, since, .. } = condition;
            format!("{about}={} {reason} {}", status(condition.status), since.unix_secs())
        };
        conditions.iter().map(text).collect()
    }

    fn there() -> Published {
        Published::There(vec![])
    }

    fn disagree() -> Published {
        let mut sticky = record("east", 2, vec![]);
        Arc::make_mut(&mut sticky.offer).affinity = SessionAffinity::ClientIp { timeout_s: 60 };
        Published::There(conflicts(&[record("west", 1, vec![port("", Protocol::Tcp, 80)]), sticky]))
    }

    #[test]
    fn an_export_is_valid_then_ready_and_without_conflict() {
        let none = Conditions::new();
        let pending = conditions(Ok(&[]), &Published::Pending, &none, NOW);
        assert_eq!(texts(&pending), ["Valid=True Valid 2000", "Ready=False Pending 2000"]);
        let done = conditions(Ok(&[]), &there(), &pending, Wall::from_unix_secs(3_000));
        assert_eq!(
            texts(&done),
            ["Valid=True Valid 2000", "Ready=True Exported 3000", "Conflict=False NoConflicts 3000"]
        );
        assert_eq!(conditions(Ok(&[]), &there(), &done, Wall::from_unix_secs(4_000)), done, "nothing is written anew");
    }

    #[test]
    fn what_cannot_be_exported_is_not_valid() {
        let missing = NotExportable::NoService { service: key() };
        let said = conditions(Err(&missing), &Published::Pending, &Conditions::new(), NOW);
        assert_eq!(texts(&said), ["Valid=False NoService 2000", "Ready=False Pending 2000"]);
        assert_eq!(said[&ConditionType::Valid].message, "service shop/web does not exist");
        let alias = NotExportable::ExternalName { service: key() };
        let said = conditions(Err(&alias), &Published::Pending, &said, Wall::from_unix_secs(3_000));
        assert_eq!(texts(&said), ["Valid=False InvalidServiceType 2000", "Ready=False Pending 2000"]);
    }

    #[test]
    fn what_is_left_out_is_told_by_the_condition_valid_which_stays_true() {
        let hosts = |count| LeftOut::Hosts { first: label("db-0"), length: 260, count };
        let before = conditions(Ok(&[]), &there(), &Conditions::new(), NOW);
        let said = conditions(Ok(&[hosts(1), hosts(2)]), &there(), &before, Wall::from_unix_secs(3_000));
        assert_eq!(texts(&said), texts(&before), "its status has not changed, so neither has its time");
        let message = &said[&ConditionType::Valid].message;
        assert_eq!(
            message.lines().map(|line| line.split_once(',').unwrap().0).collect::<Vec<_>>(),
            ["1 of the hosts", "2 of the hosts"]
        );
        assert_eq!(conditions(Ok(&[]), &there(), &said, NOW)[&ConditionType::Valid].message, "");
    }

    #[test]
    fn several_conflicts_are_one_condition_and_it_ends_with_them_multiple_conflict_reasons_merge_and_clear() {
        let said = conditions(Ok(&[]), &disagree(), &conditions(Ok(&[]), &there(), &Conditions::new(), NOW), NOW);
        assert_eq!(said[&ConditionType::Conflict].reason, "PortConflict,SessionAffinityConflict");
        assert_eq!(said[&ConditionType::Conflict].message.lines().count(), 2);
        let cleared = conditions(Ok(&[]), &there(), &said, Wall::from_unix_secs(3_000));
        assert_eq!(texts(&cleared)[2], "Conflict=False NoConflicts 3000");
    }

    #[test]
    fn a_broker_not_seen_yet_changes_nothing_that_was_said() {
        let had = conditions(Ok(&[]), &disagree(), &Conditions::new(), NOW);
        assert_eq!(conditions(Ok(&[]), &Published::Unknown, &had, Wall::from_unix_secs(3_000)), had);
        assert_eq!(
            texts(&conditions(Ok(&[]), &Published::Unknown, &Conditions::new(), NOW)),
            ["Valid=True Valid 2000"]
        );
    }

    #[test]
    fn a_refusal_of_the_broker_is_told() {
        let refused = Published::Refused("quota exceeded".into());
        let said = conditions(Ok(&[]), &refused, &Conditions::new(), NOW);
        assert_eq!(texts(&said)[1], "Ready=False Failed 2000");
        assert_eq!(said[&ConditionType::Ready].message, "quota exceeded");
    }

    #[test]
    fn a_refusal_longer_than_a_message_may_be_is_cut() {
        let refused = Published::Refused("é".repeat(MESSAGE_MAX + 1));
        let said = conditions(Ok(&[]), &refused, &Conditions::new(), NOW);
        assert_eq!(said[&ConditionType::Ready].message, "é".repeat(MESSAGE_MAX));
    }

    /// `metav1.Condition`: a reason has 1024 characters at most; the first is a letter, then also digits, `_`, `,`, `:`.
    #[test]
    fn all_conflicts_at_once_are_one_reason_that_the_api_takes() {
        let old = record("west", 1, vec![port("", Protocol::Tcp, 80)]);
        let mut new = record("east", 2, vec![]);
        Arc::make_mut(&mut new.offer).service_type = ServiceType::Headless;
        Arc::make_mut(&mut new.offer).labels = [("a".into(), "b".into())].into();
        Arc::make_mut(&mut new.offer).annotations = [("a".into(), "b".into())].into();
        Arc::make_mut(&mut new.offer).internal_traffic = InternalTrafficPolicy::Local;
        Arc::make_mut(&mut new.offer).traffic_distribution = Some("PreferClose".into());
        Arc::make_mut(&mut new.offer).families = [Family::V6].into();
        let sticky = |record: &ExportRecord, timeout_s| {
            let mut record = record.clone();
            Arc::make_mut(&mut record.offer).affinity = SessionAffinity::ClientIp { timeout_s };
            record
        };
        let mut third = sticky(&old, 60);
        third.cluster = cluster("north");
        third.created = Wall::from_unix_secs(3);
        let records = [sticky(&old, 30), new, third];
        let said = conditions(Ok(&[]), &Published::There(conflicts(&records)), &Conditions::new(), NOW);
        let Condition { reason, message, .. } = &said[&ConditionType::Conflict];
        assert_eq!((reason.split(',').count(), message.lines().count()), (9, 9));
        assert!(reason.len() <= 1024 && reason.chars().all(|c| c.is_ascii_alphabetic() || c == ','), "{reason}");
        assert!(message.len() <= MESSAGE_MAX);
    }
}
