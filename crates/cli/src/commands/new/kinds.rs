//! The kinds of a new application of records: parses `--kinds`, and writes the files that describe them.

use std::fmt::Write as _;

/// Most kinds that a new application begins with.
const KINDS_MAX: usize = 32;
/// Longest name of a kind; it is also the name of a global of the store.
const NAME_BYTES_MAX: usize = 64;

/// A kind with a prepared description and sample records.
struct Known {
    name: &'static str,
    /// Its entry in `kinds.mjs`.
    description: &'static str,
    /// Sample records, one document per line. References assume that all kinds of [`KNOWN`] are present.
    seed: &'static str,
    /// A member that refers to records of another kind; it is left out without that kind.
    refers: Option<(&'static str, &'static str)>,
}

const KNOWN: [Known; 2] = [
    Known {
        name: "Article",
        description: include_str!("../../../scaffold/records/kinds/article.mjs"),
        seed: include_str!("../../../scaffold/records/kinds/article.ndjson"),
        refers: Some(("author", "Person")),
    },
    Known {
        name: "Person",
        description: include_str!("../../../scaffold/records/kinds/person.mjs"),
        seed: include_str!("../../../scaffold/records/kinds/person.ndjson"),
        refers: None,
    },
];
/// Description of any other kind.
const UNKNOWN: &str = include_str!("../../../scaffold/records/kinds/other.mjs");

/// Names of kinds, without duplicates.
#[derive(Debug)]
pub(super) struct Kinds(Vec<String>);

/// Why the value of `--kinds` is invalid.
#[derive(Debug, thiserror::Error)]
pub(super) enum KindsError {
    #[error("`{name}` cannot be a kind: a name has letters, digits and `_`, and begins with a letter")]
    Name { name: String },
    #[error("kind `{name}` has {} bytes (at most {NAME_BYTES_MAX})", name.len())]
    TooLong { name: String },
    #[error("kinds `{first}` and `{second}` differ in nothing but capitals")]
    Twice { first: String, second: String },
    #[error("{found} kinds (at most {KINDS_MAX}); others can be added to public/kinds.mjs later")]
    TooMany { found: usize },
}

impl Default for Kinds {
    fn default() -> Self {
        Self(KNOWN.iter().map(|kind| kind.name.to_owned()).collect())
    }
}

impl Kinds {
    /// Parses names separated by commas.
    pub(super) fn read(names: &str) -> Result<Self, KindsError> {
        let mut kinds: Vec<String> = Vec::new();
        for name in names.split(',').map(str::trim) {
            let name = name.to_owned();
            let is_name = name.starts_with(char::is_alphabetic)
                && name
                    .chars()
                    .all(|letter| letter.is_alphanumeric() || letter == '_');
            if !is_name {
                return Err(KindsError::Name { name });
            }
            if name.len() > NAME_BYTES_MAX {
                return Err(KindsError::TooLong { name });
            }
            let alike = |other: &&String| other.to_lowercase() == name.to_lowercase();
            if let Some(first) = kinds.iter().find(alike) {
                let first = first.clone();
                return Err(KindsError::Twice { first, second: name });
            }
            kinds.push(name);
        }
        match kinds.len() {
            found if found > KINDS_MAX => Err(KindsError::TooMany { found }),
            _ => Ok(Self(kinds)),
        }
    }

    /// The first kind, for examples.
    pub(super) fn first(&self) -> &str {
        &self.0[0]
    }

    /// Lines of `[store.access]`: everyone may read, and only the controller writes.
    pub(super) fn access(&self) -> String {
        self.0.iter().fold(String::new(), |mut lines, name| {
            let name = if name.is_ascii() {
                name.clone()
            } else {
                quoted(name)
            };
            let _ = writeln!(lines, "{name} = {{ read = \"public\" }}");
            lines
        })
    }

    /// The names as a list in TOML.
    pub(super) fn names(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|name| quoted(name)).collect();
        format!("[{}]", names.join(", "))
    }

    /// The entries of `kinds.mjs`.
    pub(super) fn descriptions(&self) -> String {
        let mut entries = String::new();
        for name in &self.0 {
            let known = KNOWN.iter().find(|kind| kind.name == name);
            let without = known
                .and_then(|kind| self.missing(kind))
                .map(|member| format!("{member}:"));
            let lines = known.map_or(UNKNOWN, |kind| kind.description).lines();
            let lines = lines.filter(|line| {
                without
                    .as_ref()
                    .is_none_or(|field| !line.trim_start().starts_with(field))
            });
            let name = if name.is_ascii() {
                name.clone()
            } else {
                quoted(name)
            };
            for (at, line) in lines.enumerate() {
                let begin = if at == 0 {
                    format!("{name}: ")
                } else {
                    String::new()
                };
                let _ = writeln!(entries, "  {begin}{line}");
            }
        }
        entries
    }

    /// Sample records in the format of `forebay store import`; empty when there are none.
    pub(super) fn seed(&self) -> String {
        let mut lines = String::new();
        let mut reference = 0;
        for kind in KNOWN {
            let name = kind.name;
            if !self.has(name) {
                continue;
            }
            let _ = writeln!(lines, "{{\"path\":[\"%Kind\",\"{name}\"],\"value\":true}}");
            for document in kind.seed.lines() {
                reference += 1;
                let mut document: serde_json::Value =
                    serde_json::from_str(document).expect("a test reads all records to begin with");
                if let (Some(member), Some(members)) = (self.missing(&kind), document.as_object_mut()) {
                    members.remove(member);
                }
                let _ = writeln!(lines, "{{\"path\":[\"%Ref\",{reference}],\"value\":\"{name}\"}}");
                let _ = writeln!(
                    lines,
                    "{{\"path\":[\"{name}\",{reference}],\"document\":{document}}}"
                );
            }
        }
        if reference > 0 {
            let _ = writeln!(lines, "{{\"path\":[\"%Ref\"],\"value\":{reference}}}");
        }
        lines
    }

    fn has(&self, kind: &str) -> bool {
        self.0.iter().any(|name| name == kind)
    }

    /// The member of a kind that refers to a kind which is not present.
    fn missing(&self, kind: &Known) -> Option<&'static str> {
        let (member, other) = kind.refers?;
        (!self.has(other)).then_some(member)
    }
}

/// Quotes a name for TOML, JSON or JavaScript: names contain nothing that must be escaped.
fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_kinds_is_refused_with_its_name() {
        for (names, error) in [
            ("", "`` cannot be a kind"),
            ("Article,", "`` cannot be a kind"),
            ("1st", "`1st` cannot be a kind"),
            ("A-B", "`A-B` cannot be a kind"),
            ("%Ref", "`%Ref` cannot be a kind"),
            ("Book,book", "`Book` and `book` differ in nothing but capitals"),
        ] {
            let refused = Kinds::read(names).unwrap_err().to_string();
            assert!(refused.contains(error), "{names}: {refused}");
        }
        let long = "a".repeat(65);
        assert!(
            Kinds::read(&long)
                .unwrap_err()
                .to_string()
                .contains("65 bytes (at most 64)")
        );
        let many = (0..33).map(|n| format!("K{n}")).collect::<Vec<_>>().join(",");
        assert!(
            Kinds::read(&many)
                .unwrap_err()
                .to_string()
                .contains("33 kinds (at most 32)")
        );
    }

    #[test]
    fn names_of_any_script_are_written_so_that_toml_and_javascript_read_them() {
        let kinds = Kinds::read("Книга, Book").unwrap();
        assert_eq!(kinds.names(), "[\"Книга\", \"Book\"]");
        assert!(kinds.access().starts_with("\"Книга\" = {"), "{}", kinds.access());
        assert!(
            kinds.descriptions().starts_with("  \"Книга\": {"),
            "{}",
            kinds.descriptions()
        );
        assert_eq!(kinds.seed(), "");
    }

    #[test]
    fn a_kind_does_not_refer_to_one_that_is_not_there() {
        let (both, alone) = (Kinds::default(), Kinds::read("Article").unwrap());
        assert!(both.descriptions().contains("author: ") && both.seed().contains("\"author\":"));
        assert!(
            !alone.descriptions().contains("author"),
            "{}",
            alone.descriptions()
        );
        assert!(!alone.seed().contains("author"), "{}", alone.seed());
        assert!(alone.seed().contains("\"A quiet harbour\""));
        let turned = Kinds::read("Person,Article").unwrap();
        assert_eq!(turned.seed(), both.seed(), "references are the same in any order");
    }
}
