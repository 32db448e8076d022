//! `[records]`

use super::{Default, GIB, HOUR, KIB, Key, Kind};

pub(super) static RECORDS: &[Key] = &[
    Key {
        name: "type_key",
        kind: Kind::Text,
        default: Default::Is("kind"),
        meaning: "The member that says a record's kind; points lead deeper: `meta.kind`.",
        exceeded: "",
    },
    Key {
        name: "default_kind",
        kind: Kind::Text,
        default: Default::Is("Record"),
        meaning: "The kind of records that say none.",
        exceeded: "",
    },
    Key {
        name: "detect",
        kind: Kind::Table(DETECT),
        default: Default::Is(""),
        meaning: "Which texts are more than texts when they are compared, and which numbers more than numbers.",
        exceeded: "",
    },
    Key {
        name: "time_format",
        kind: Kind::Choice(&forebay_records::TimeFormat::NAMES),
        default: Default::Is("stored"),
        meaning: "How results of TQL write times: as they are stored, as seconds since 1970 with 9 decimals or so many, as XML Schema writes them with so many decimals or as many as it takes, or at midnight only the date.",
        exceeded: "",
    },
    Key {
        name: "time_zone",
        kind: Kind::Text,
        default: Default::Is("Z"),
        meaning: "The zone in which they are written when `time_format` is not `stored`: `Z`, or a distance from UTC such as `+02:00`.",
        exceeded: "",
    },
    Key {
        name: "examined_max",
        kind: Kind::Integer {
            min: 1,
            max: 1_000_000_000_000,
        },
        default: Default::Is("1000000"),
        meaning: "Records that one statement looks at.",
        exceeded: "an answer that ends there and says so (`truncated`); 422 for one that is sorted or changes something",
    },
    Key {
        name: "rows_max",
        kind: Kind::Integer {
            min: 1,
            max: 10_000_000,
        },
        default: Default::Is("10000"),
        meaning: "Rows of an answer, and records, or with AT parts of them, that one statement changes.",
        exceeded: "an answer that ends there and says so (`truncated`); 422 for a statement that changes something",
    },
    Key {
        name: "answer_bytes_max",
        kind: Kind::Size { min: KIB, max: GIB },
        default: Default::Is("16MiB"),
        meaning: "Rows of an answer, and what is kept of them until they are sorted; JSON that `?indent=` lays out.",
        exceeded: "an answer that ends there and says so (`truncated`); 413 for one that is sorted, or unique, and for JSON that `?indent=` makes longer",
    },
    Key {
        name: "change_time_max",
        kind: Kind::Duration { min: 1, max: HOUR },
        default: Default::Is("1s"),
        meaning: "How long a statement that changes something takes to find that and to change it, once it is its turn: others wait meanwhile to write.",
        exceeded: "504; nothing is changed",
    },
];

static DETECT: &[Key] = &[
    Key {
        name: "time",
        kind: Kind::Flag,
        default: Default::Is("true"),
        meaning: "Texts such as `2017-01-05T15:04:33.123Z` are times: they are compared with times only, by the moment that they are.",
        exceeded: "",
    },
    Key {
        name: "uuid",
        kind: Kind::Flag,
        default: Default::Is("true"),
        meaning: "UUIDs are the same in small letters and in capitals.",
        exceeded: "",
    },
    Key {
        name: "time_number",
        kind: Kind::Flag,
        default: Default::Is("false"),
        meaning: "Numbers are times, too, as seconds since 1970: those that lie between the next two and are written without an exponent.",
        exceeded: "",
    },
    Key {
        name: "time_number_min",
        kind: Kind::Integer {
            min: 0,
            max: 253_402_300_799,
        },
        default: Default::Is("1000000000"),
        meaning: "The least number that is a time.",
        exceeded: "",
    },
    Key {
        name: "time_number_max",
        kind: Kind::Integer {
            min: 0,
            max: 253_402_300_799,
        },
        default: Default::Is("4102444800"),
        meaning: "The greatest number that is a time.",
        exceeded: "",
    },
    Key {
        name: "time_number_decimals",
        kind: Kind::Integer { min: 0, max: 9 },
        default: Default::Is("0"),
        meaning: "How many decimals a number that is a time has, exactly; with 0, none to nine.",
        exceeded: "",
    },
];
