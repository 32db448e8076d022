//! `[store]` and `[records]`

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use forebay_records::{Detect, Settings, TimeFormat, TimeNumber, check_kind, parse_zone, zone_text};
use forebay_store::index::{Definition, EACH, INDEXES_MAX, field_text, parse_field};
use forebay_store::{DatabaseUrl, Key};

use crate::build::Context;
use crate::fields::{Fields, Value};
use crate::key::{GIB, HOUR, KIB, Kind, MIB, MINUTE, SECOND, TIB};
use crate::print::Table;
use crate::section::{Entry, Setting, Unused, section, unless, words};
use crate::setting::{Text, parsed, text_settings};
use crate::substitute::is_name;
use crate::{Secret, node_path};

section! {
    /// The store. With this section, even an empty one, the server opens it and its workers can.
    #[rules(Store::rules)]
    #[check(Store::check)]
    #[unused(Store::unused)]
    pub struct Store {
        /// The folder of the embedded store, made when it is not there. One server at a time leads it.
        path: PathBuf = "data",
        /// A database that keeps the store in the place of `path`, for several machines: `postgres://user:password@host:5432/database`, or
        /// several hosts with commas between them, of which the one that can be written is used. `?schema=NAME` names the schema of its
        /// tables, which are made when they are not there (`forebay`); the other parameters are those of `sql.NAME.url`.
        url: Option<DatabaseUrl>,
        /// When a commit is confirmed. `sync`: after a flush of its own; `group`: after a flush that it shares with others; `relaxed`: at
        /// once, so that a power cut can take the last `flush_interval`.
        durability: Durability = "group",
        /// Longest time in which a relaxed commit is not on the disk.
        flush_interval: Duration as duration(1, MINUTE) = "20ms",
        /// How far the store's file may grow.
        map_max: u64 as size(MIB, TIB) = "64GiB" => "507",
        /// How long one answer may read from one state of the store.
        reader_age_max: Duration as duration(SECOND, 24 * HOUR) = "60s" => "the answer is cut off",
        /// Longest document or value, in bytes of JSON.
        value_bytes_max: u64 as size(KIB, GIB) = "64MiB" => "413",
        /// Writes over HTTP that wait for the store.
        queue_max: usize as integer(1, 1_000_000) = "1024" => "503 with `Retry-After`",
        /// Bytes of the writes that wait.
        queue_bytes_max: u64 as size(64 * KIB, TIB) = "64MiB" => "503 with `Retry-After`",
        /// `[store.access]`: who may reach which global over HTTP; globals without an entry nobody. Handlers are not bound by it.
        access: BTreeMap<String, Access> => "401 or 403",
        /// `[store.index.NAME]`: an index, created at the start if missing. If one of that name exists with other fields, the server does
        /// not start; an index that is not listed stays.
        index: BTreeMap<String, Index>,
    }
}

section! {
    /// An entry of `[store.access]`.
    pub struct Access {
        /// `public`: everybody; `token:NAME`: who sends `Authorization: Bearer` with the value of the environment variable NAME; `none`:
        /// nobody.
        read: Permission = "none" => "401 or 403",
        /// The same for writing.
        write: Permission = "none" => "401 or 403",
    }
}

section! {
    /// `[store.index.NAME]`
    pub struct Index {
        /// The node whose children are the records, written as in a URL: `Person/data`.
        records: Key,
        /// One to eight fields of a record, in order: `lastName`, `address.city`, `tags.*` for each element of an array. A name with one of
        /// `."=<>!` in it stands between double quotes.
        fields: Vec<Vec<String>> as at_least(1),
        /// Whether two records may not have the same values.
        unique: bool = "false" => "409",
    }
}

section! {
    /// Records of the store, and TQL: what holds for the targets `records` and `tql`, and for handlers.
    #[rules(Records::rules)]
    pub struct Records {
        /// The member that says a record's kind; points lead deeper: `meta.kind`.
        type_key: String = "kind",
        /// The kind of records that say none.
        default_kind: String = "Record",
        /// Which texts are more than texts when they are compared, and which numbers more than numbers.
        detect: RecordsDetect,
        /// How results of TQL write times: as they are stored, as seconds since 1970 with 9 decimals or so many, as XML Schema writes them
        /// with so many decimals or as many as it takes, or at midnight only the date.
        time_format: TimeFormat = "stored",
        /// The zone in which they are written when `time_format` is not `stored`: `Z`, or a distance from UTC such as `+02:00`.
        time_zone: TimeZone = "Z",
        /// Records that one statement looks at.
        examined_max: u64 as integer(1, 1_000_000_000_000) = "1000000" => "an answer that ends there and says so (`truncated`); 422 for one that is sorted or changes something",
        /// Rows of an answer, and records, or with AT parts of them, that one statement changes.
        rows_max: u64 as integer(1, 10_000_000) = "10000" => "an answer that ends there and says so (`truncated`); 422 for a statement that changes something",
        /// Rows of an answer, and what is kept of them until they are sorted; JSON that `?indent=` lays out.
        answer_bytes_max: usize as size(KIB, GIB) = "16MiB" => "an answer that ends there and says so (`truncated`); 413 for one that is sorted, or unique, and for JSON that `?indent=` makes longer",
        /// How long a statement that changes something takes to find that and to change it, once it is its turn: others wait meanwhile to
        /// write.
        change_time_max: Duration as duration(1, HOUR) = "1s" => "504; nothing is changed",
    }
}

section! {
    /// `records.detect`
    #[check(RecordsDetect::check)]
    #[unused(RecordsDetect::unused)]
    pub struct RecordsDetect {
        /// Texts such as `2017-01-05T15:04:33.123Z` are times: they are compared with times only, by the moment that they are.
        time: bool = "true",
        /// UUIDs are the same in small letters and in capitals.
        uuid: bool = "true",
        /// Numbers are times, too, as seconds since 1970: those that lie between the next two and are written without an exponent.
        time_number: bool = "false",
        /// The least number that is a time.
        time_number_min: u64 as integer(0, 253_402_300_799) = "1000000000",
        /// The greatest number that is a time.
        time_number_max: u64 as integer(0, 253_402_300_799) = "4102444800",
        /// How many decimals a number that is a time has, exactly; with 0, none to nine.
        time_number_decimals: u8 as integer(0, 9) = "0",
    }
}

words! {
    /// When a commit counts as done.
    pub enum Durability {
        /// Each commit waits for its own flush.
        Sync = "sync",
        /// Each commit waits for a flush shared with others.
        Group = "group",
        /// Commits do not wait for a flush.
        Relaxed = "relaxed",
    }
}

// A URL may contain a password, so the errors do not repeat it.
parsed!("": DatabaseUrl);

impl Store {
    /// Where the store is: its folder, or the URL of its database with the password.
    pub fn location(&self) -> PathBuf {
        match &self.url {
            Some(url) => url.with_password().into(),
            None => self.path.clone(),
        }
    }

    /// Keys that a store in a database does not have.
    fn unused(&self) -> Unused {
        let keys = ["path", "durability", "flush_interval", "map_max"];
        unless(
            self.url.is_none(),
            &keys,
            "it is for a store in a folder (`path`), and this one is in a database (`url`)",
        )
    }

    fn rules(fields: &Fields, context: &mut Context<'_>) {
        if let Some(Value::TableMap(access)) = fields.value("access") {
            for (global, rules) in access {
                if let Err(error) = Key::global(global) {
                    context.note(rules.whole_problem(error.to_string()));
                }
            }
        }
    }

    fn check(&mut self, fields: &Fields, context: &mut Context<'_>) {
        let Some(Value::TableMap(indexes)) = fields.value("index") else {
            return;
        };
        if indexes.len() > INDEXES_MAX {
            let message = format!("found {} indexes, expected at most {INDEXES_MAX}", indexes.len());
            context.note(fields.problem("index", message));
        }
        for (name, index) in indexes {
            let of = self
                .index
                .get(name)
                .filter(|of| of.fields.len() == index.texts("fields").len());
            if let Some(Err(error)) = of.map(|of| of.definition(name).check()) {
                context.note(index.problem("fields", error.to_string()));
            }
        }
    }

    /// Indexes that exist once the server has started, by name.
    pub fn indexes(&self) -> Vec<Definition> {
        self.index
            .iter()
            .map(|(name, index)| index.definition(name))
            .collect()
    }
}

impl Index {
    fn definition(&self, name: &str) -> Definition {
        Definition {
            name: name.to_owned(),
            records: self.records.clone(),
            fields: self.fields.clone(),
            unique: self.unique,
        }
    }
}

impl Text for Key {
    fn parse<'f>(written: &str, line: usize, entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        let wrong = |error| {
            let message =
                format!("found {written:?}, expected a node as in a URL, such as \"Person/data\": {error}");
            entry.note(context, line, message);
        };
        node_path::key(written).map_err(wrong).ok()
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        node_path::put_key(self, &mut text);
        text
    }
}

/// A field of a record.
impl Text for Vec<String> {
    fn parse<'f>(written: &str, line: usize, entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        let wrong = |error| {
            let message = format!(
                "found {written:?}, expected a field such as \"lastName\", \"address.city\" or \"tags.*\": {error}"
            );
            entry.note(context, line, message);
        };
        parse_field(written).map_err(wrong).ok()
    }

    fn to_text(&self) -> String {
        field_text(self)
    }
}

/// A permission over HTTP.
#[derive(Clone, PartialEq, Eq)]
pub enum Permission {
    /// Any client.
    Public,
    /// Clients that send the token as `Authorization: Bearer`.
    Token(Secret),
    /// No client.
    Nobody,
}

impl fmt::Debug for Permission {
    /// Prints the configuration's notation, without the token.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Public => out.write_str("public"),
            Self::Token(secret) => write!(out, "token:{}", secret.shown()),
            Self::Nobody => out.write_str("none"),
        }
    }
}

impl Text for Permission {
    fn parse<'f>(written: &str, line: usize, entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        match (written, written.strip_prefix("token:")) {
            ("public", _) => Some(Self::Public),
            ("none", _) => Some(Self::Nobody),
            (_, Some(variable)) if is_name(variable) => context.secret(variable, entry).map(Self::Token),
            _ => {
                let message = format!(
                    "found {written:?}, expected \"public\", \"none\" or \"token:NAME\" with the name of an environment variable"
                );
                entry.note(context, line, message);
                None
            }
        }
    }

    /// Names the variable that holds the token, never the token.
    fn to_text(&self) -> String {
        format!("{self:?}")
    }
}
text_settings!(Key, Permission, TimeZone);

impl Records {
    fn rules(fields: &Fields, context: &mut Context<'_>) {
        if context.sections.has("records") && !context.has_store() {
            context.note(fields.whole_problem("there is no store: the file has no [store]"));
        }
        let type_key = fields.text("type_key").unwrap_or_default();
        if type_key.split('.').any(|name| name.is_empty() || name == EACH) {
            let message = format!(
                "found {type_key:?}, expected names of members with points between them, such as \"kind\" or \"meta.kind\""
            );
            context.note(fields.problem("type_key", message));
        }
        if let Err(error) = check_kind(fields.text("default_kind").unwrap_or_default()) {
            context.note(fields.problem("default_kind", error.to_string()));
        }
    }

    /// As the records and TQL take them.
    pub fn settings(&self) -> Settings {
        Settings {
            type_key: self.type_key.split('.').map(str::to_owned).collect(),
            default_kind: self.default_kind.clone(),
            detect: Detect {
                time: self.detect.time,
                uuid: self.detect.uuid,
                time_number: self.detect.time_number.then_some(TimeNumber {
                    min: self.detect.time_number_min,
                    max: self.detect.time_number_max,
                    decimals: self.detect.time_number_decimals,
                }),
            },
            time_format: self.time_format,
            zone_minutes: self.time_zone.0,
            examined_max: self.examined_max,
            rows_max: self.rows_max,
            answer_bytes_max: self.answer_bytes_max,
            change_time_max: self.change_time_max,
        }
    }
}

impl RecordsDetect {
    fn check(&mut self, fields: &Fields, context: &mut Context<'_>) {
        let (min, max) = (self.time_number_min, self.time_number_max);
        if min > max {
            let message = format!("found {max}, expected at least time_number_min ({min})");
            context.note(fields.problem("time_number_max", message));
        }
    }

    /// They may be written all the same.
    fn unused(&self) -> Unused {
        let keys = ["time_number_min", "time_number_max", "time_number_decimals"];
        unless(self.time_number, &keys, "")
    }
}

impl Setting for TimeFormat {
    const KIND: Kind = Kind::Choice(&Self::NAMES);

    fn read<'f>(entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        Self::from_name(entry.text(context)?)
    }

    fn print(&self, key: &crate::key::Key, out: &mut Table) {
        out.put(key.name, &crate::print::text(self.name()));
    }
}

/// A distance from UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeZone(
    /// Minutes east of it.
    pub i32,
);

impl Text for TimeZone {
    fn parse<'f>(written: &str, line: usize, entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        let zone = parse_zone(written);
        if zone.is_none() {
            let message = format!(
                "found {written:?}, expected \"Z\" or a distance from UTC such as \"+02:00\"; zones by their names are not known"
            );
            entry.note(context, line, message);
        }
        // The others are checked as if it were UTC.
        Some(Self(zone.unwrap_or(0)))
    }

    fn to_text(&self) -> String {
        zone_text(self.0)
    }
}
