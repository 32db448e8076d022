//! Days of the Gregorian calendar, counted from 1970-01-01. Both ways count in eras of 400 years, whose years begin in March so that the
//! leap day is the last.

/// Days of an era.
const ERA_DAYS: u64 = 146_097;
/// 1970-01-01 is this day of the era that began on 0000-03-01.
const EPOCH: u64 = 719_468;

/// Year, month and day so many days after 1970-01-01.
pub(crate) fn date(days: u64) -> (u64, u64, u64) {
    let days = days + EPOCH;
    let (era, day) = (days / ERA_DAYS, days % ERA_DAYS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// Days from 1970-01-01 to a date, which is not before it.
pub(crate) fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year / 4 - year / 100 + year / 400 + day_of_year - EPOCH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_agree_on_every_day_of_an_era() {
        for day in 0..ERA_DAYS {
            let (year, month, of_month) = date(day);
            assert!((1..=12).contains(&month) && (1..=31).contains(&of_month));
            assert_eq!(days(year, month, of_month), day);
        }
        assert_eq!((date(0), date(19_782)), ((1970, 1, 1), (2024, 2, 29)));
    }
}
