//! `[records]`

use forebay_records::{Detect, Settings, TimeFormat, TimeNumber, check_kind, parse_zone};
use forebay_store::index::EACH;

use super::Builder;
use crate::error::Noted;
use crate::fields::Fields;

impl Builder<'_> {
    pub(super) fn records(&mut self, fields: &Fields, is_written: bool, has_store: bool) -> Settings {
        if is_written && !has_store {
            self.note(Noted {
                line: fields.line,
                key: fields.path.clone(),
                message: "there is no store: the file has no [store]".to_owned(),
            });
        }
        let type_key: Vec<String> = fields.text("type_key").split('.').map(str::to_owned).collect();
        if type_key.iter().any(|name| name.is_empty() || name == EACH) {
            let message = format!(
                "found {:?}, expected names of members with points between them, such as \"kind\" or \"meta.kind\"",
                fields.text("type_key")
            );
            self.note(fields.problem("type_key", message));
        }
        let default_kind = fields.text("default_kind");
        if let Err(error) = check_kind(default_kind) {
            self.note(fields.problem("default_kind", error.to_string()));
        }
        let zone = fields.text("time_zone");
        let zone_minutes = parse_zone(zone);
        if zone_minutes.is_none() {
            let message = format!(
                "found {zone:?}, expected \"Z\" or a distance from UTC such as \"+02:00\"; zones by their names are not known"
            );
            self.note(fields.problem("time_zone", message));
        }
        let detect = fields.table("detect");
        let numbers = TimeNumber {
            min: detect.integer("time_number_min"),
            max: detect.integer("time_number_max"),
            decimals: u8::try_from(detect.integer("time_number_decimals")).unwrap_or(0),
        };
        if numbers.min > numbers.max {
            let message = format!(
                "found {}, expected at least time_number_min ({})",
                numbers.max, numbers.min
            );
            self.note(detect.problem("time_number_max", message));
        }
        Settings {
            type_key,
            default_kind: default_kind.to_owned(),
            detect: Detect {
                time: detect.flag("time"),
                uuid: detect.flag("uuid"),
                time_number: detect.flag("time_number").then_some(numbers),
            },
            time_format: TimeFormat::from_name(fields.text("time_format")).unwrap_or(TimeFormat::Stored),
            zone_minutes: zone_minutes.unwrap_or(0),
            examined_max: fields.integer("examined_max"),
            rows_max: fields.integer("rows_max"),
            answer_bytes_max: usize::try_from(fields.integer("answer_bytes_max")).unwrap_or(usize::MAX),
            change_time_max: fields.duration("change_time_max"),
        }
    }
}
