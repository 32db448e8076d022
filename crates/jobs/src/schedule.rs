//! Schedules: at which times a job is put into a queue.

use std::{fmt, str::FromStr};

use chrono::{DateTime, FixedOffset, Offset as _, SecondsFormat, TimeDelta, TimeZone as _, Utc};
use chrono_tz::Tz;
use croner::Cron;

/// A cron expression: minute, hour, day of the month, month and day of the week, and before them, if wanted, the second.
#[derive(Clone, Debug)]
pub struct CronExpression(Cron);

impl FromStr for CronExpression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = Cron::new(text).with_seconds_optional().parse();
        let expression = parsed.map_err(|error| error.to_string()).and_then(|cron| {
            let expression = Self(cron);
            let is_ever = expression.after(0, Tz::UTC).is_some();
            is_ever
                .then_some(expression)
                .ok_or_else(|| "there is no such time".to_owned())
        });
        expression.map_err(|reason| {
            format!(
                "found {text:?}, expected a cron expression such as \"30 3 * * MON-FRI\" (minute, hour, day, month, day of the week): {reason}"
            )
        })
    }
}

impl fmt::Display for CronExpression {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0.as_str())
    }
}

impl PartialEq for CronExpression {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for CronExpression {}

impl CronExpression {
    /// The first time after this one. Clocks that are put forward or back have croner skip times or find earlier ones, so it is asked about
    /// clocks that keep their offset, from one change to the next.
    fn after(&self, ms: u64, zone: Tz) -> Option<u64> {
        let mut from = DateTime::from_timestamp(i64::try_from(ms / 1_000).ok()?, 0)?;
        let mut offset = offset_at(zone, from);
        let is_hourly = (0..24).all(|hour| self.0.pattern.hour_match(hour).unwrap_or(false));
        loop {
            let start = from.with_timezone(&offset);
            let next = self.0.find_next_occurrence(&start, false).ok()?.to_utc();
            if let Some(change) = change_of_clocks(zone, offset, from, next) {
                let before = offset;
                offset = offset_at(zone, change);
                let skipped =
                    TimeDelta::seconds((offset.local_minus_utc() - before.local_minus_utc()).into());
                if !is_hourly && next < change + skipped {
                    return u64::try_from(change.timestamp_millis()).ok();
                }
                from = change - TimeDelta::seconds(1);
                continue;
            }
            let local = next.with_timezone(&zone).naive_local();
            let is_repeated = zone.from_local_datetime(&local).earliest() != Some(next.with_timezone(&zone));
            if is_hourly || !is_repeated {
                return u64::try_from(next.timestamp_millis()).ok();
            }
            from = next;
        }
    }
}

/// The clocks of processes that share a queue differ by less than this.
const CLOCKS_APART_MAX_MS: u64 = 60_000;

/// Whether the times of a schedule are noted as done up to a time that this clock will reach only in a minute or more: this clock is slow, or
/// another one was fast.
pub fn is_ahead(noted_ms: u64, now_ms: u64) -> bool {
    noted_ms > now_ms.saturating_add(CLOCKS_APART_MAX_MS)
}

fn offset_at(zone: Tz, time: DateTime<Utc>) -> FixedOffset {
    zone.offset_from_utc_datetime(&time.naive_utc()).fix()
}

/// The first second after `from`, and not after `until`, at which the clocks have another offset than this one.
fn change_of_clocks(
    zone: Tz,
    offset: FixedOffset,
    mut from: DateTime<Utc>,
    until: DateTime<Utc>,
) -> Option<DateTime<Utc>> {
    let mut changed = from;
    while offset_at(zone, changed) == offset || changed == from {
        if changed == until {
            return None;
        }
        from = changed;
        // No clocks are changed twice in a day.
        changed = until.min(from + TimeDelta::days(1));
    }
    while changed - from > TimeDelta::seconds(1) {
        let middle = from + TimeDelta::seconds((changed - from).num_seconds() / 2);
        if offset_at(zone, middle) == offset {
            from = middle;
        } else {
            changed = middle;
        }
    }
    Some(changed)
}

/// A time zone, by its name in the database of time zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeZone(Tz);

impl FromStr for TimeZone {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        name.parse()
            .map(Self)
            .map_err(|_| format!("found {name:?}, expected a time zone such as \"Europe/Zurich\" or \"UTC\""))
    }
}

impl fmt::Display for TimeZone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0.name())
    }
}

/// When jobs are put into a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Times at which a job is put into the queue.
    pub expression: CronExpression,
    /// Whose clocks show them.
    pub zone: TimeZone,
}

impl Schedule {
    /// The first time after this one, in milliseconds since 1970 UTC; `None`: there is none. It gets a job once it has come. Others that have
    /// passed by then, because no process ran, get none.
    ///
    /// When clocks are put back, an expression for every hour has the times of the repeated hour twice, any other one once. When they are
    /// put forward, the times that are skipped come together at the change, unless the expression is for every hour.
    pub fn after(&self, ms: u64) -> Option<u64> {
        self.expression.after(ms, self.zone.0)
    }

    /// A time as its zone writes it: `2026-11-27T03:30:00+01:00`.
    pub fn written(&self, ms: u64) -> String {
        let time = i64::try_from(ms).ok().and_then(DateTime::from_timestamp_millis);
        let written = time.map(|time| {
            time.with_timezone(&self.zone.0)
                .to_rfc3339_opts(SecondsFormat::Secs, true)
        });
        written.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(expression: &str, zone: &str) -> Schedule {
        Schedule {
            expression: expression.parse().unwrap(),
            zone: zone.parse().unwrap(),
        }
    }

    fn ms(time: &str) -> u64 {
        time.parse::<DateTime<chrono::Utc>>().unwrap().timestamp_millis() as u64
    }

    #[test]
    fn times_are_those_of_the_zone_and_a_change_of_its_clocks_neither_skips_nor_repeats_a_day() {
        let zurich = schedule("30 2 * * *", "Europe/Zurich");
        assert_eq!(
            zurich.after(ms("2026-07-01T00:00:00Z")),
            Some(ms("2026-07-01T00:30:00Z"))
        );
        // 02:30 does not exist on 29 March 2026, and exists twice on 25 October.
        for first in ["2026-03-27T12:00:00Z", "2026-10-23T12:00:00Z"] {
            let mut last = ms(first);
            for _ in 0..5 {
                let next = zurich.after(last).unwrap();
                assert!((12..=26).contains(&((next - last) / 3_600_000)), "{last} {next}");
                last = next;
            }
            assert_eq!((last - ms(first)) / 86_400_000, 4);
        }
    }

    #[test]
    fn the_hour_that_clocks_repeat_or_skip_has_the_times_of_every_hour_and_no_others_twice() {
        let times = |expression, zone, day: &str| {
            let schedule = schedule(expression, zone);
            let until = ms(&format!("{day}T00:00:00Z")) + 86_400_000;
            let next = |time: &u64| schedule.after(*time);
            let all = std::iter::successors(next(&(until - 86_400_000 - 1)), next);
            all.take_while(|time| *time < until).collect::<Vec<_>>()
        };
        for (zone, day) in [
            ("Europe/Zurich", "2026-10-25"),
            ("Europe/Zurich", "2026-03-29"),
            ("America/New_York", "2026-11-01"),
            ("Australia/Lord_Howe", "2026-04-04"),
            ("Antarctica/Troll", "2026-03-29"),
            ("Antarctica/Troll", "2026-10-25"),
        ] {
            let quarters = times("*/15 * * * *", zone, day);
            assert_eq!(quarters.len(), 96, "{zone} {day}");
            assert!(quarters.windows(2).all(|pair| pair[1] - pair[0] == 900_000));
            for expression in ["30 2 * * *", "*/15 * * * *", "0 1-3 * * *"] {
                let schedule = schedule(expression, zone);
                for minute in 0..2 * 1_440 {
                    let time = ms(&format!("{day}T00:00:00Z")) - 43_200_000 + minute * 60_000 + 500;
                    assert!(schedule.after(time).unwrap() > time, "{expression} {zone} {time}");
                }
            }
        }
        assert_eq!(
            times("30 2 * * *", "Europe/Zurich", "2026-10-25"),
            [ms("2026-10-25T00:30:00Z")]
        );
        assert_eq!(
            times("30 2 * * *", "Europe/Zurich", "2026-03-29"),
            [ms("2026-03-29T01:00:00Z")]
        );
        assert_eq!(
            times("0 1 * * *", "Antarctica/Troll", "2026-03-29"),
            ["2026-03-29T01:00:00Z", "2026-03-29T23:00:00Z"].map(ms)
        );
        let hourly = |day| times("30 * * * *", "Europe/Zurich", day).len();
        assert_eq!((hourly("2026-10-25"), hourly("2026-03-29")), (24, 24));
    }

    #[test]
    fn seconds_and_names_are_accepted_and_what_never_comes_is_not() {
        assert_eq!(schedule("*/2 * * * * *", "UTC").after(1_000), Some(2_000));
        assert_eq!(schedule("*/2 * * * * *", "UTC").after(2_000), Some(4_000));
        let weekly = schedule("0 9 * * MON", "UTC");
        assert_eq!(
            weekly.after(ms("2026-11-27T00:00:00Z")),
            Some(ms("2026-11-30T09:00:00Z"))
        );
        for wrong in ["soon", "0 0 31 2 *", "61 * * * *", ""] {
            let error = wrong.parse::<CronExpression>().unwrap_err();
            assert!(error.contains("expected a cron expression"), "{error}");
        }
        assert!(
            "Europe/Zurch"
                .parse::<TimeZone>()
                .unwrap_err()
                .contains("expected a time zone")
        );
    }
}
