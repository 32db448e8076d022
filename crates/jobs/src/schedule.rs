//! Schedules: at which times a job is put into a queue.

use std::{fmt, str::FromStr};

use chrono::{DateTime, SecondsFormat};
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
    fn after(&self, ms: u64, zone: Tz) -> Option<u64> {
        let time = DateTime::from_timestamp_millis(i64::try_from(ms).ok()?)?;
        let next = self.0.find_next_occurrence(&time.with_timezone(&zone), false);
        u64::try_from(next.ok()?.timestamp_millis()).ok()
    }
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
