//! `[store]`

use std::collections::BTreeMap;

use forebay_store::index::{Definition, INDEXES_MAX, parse_field};

use super::Builder;
use crate::fields::Fields;
use crate::node_path as path;
use crate::substitute::is_name;
use crate::{Access, Durability, Permission, Secret, Store};

impl Builder<'_> {
    pub(super) fn store(&mut self, fields: &Fields) -> Store {
        Store {
            path: self.resolve(fields, fields.text("path")),
            durability: match fields.text("durability") {
                "sync" => Durability::Sync,
                "relaxed" => Durability::Relaxed,
                _ => Durability::Group,
            },
            flush_interval: fields.duration("flush_interval"),
            map_max: fields.integer("map_max"),
            reader_age_max: fields.duration("reader_age_max"),
            value_bytes_max: fields.integer("value_bytes_max"),
            queue_max: fields.integer("queue_max") as usize,
            queue_bytes_max: fields.integer("queue_bytes_max"),
            access: self.access(fields),
            indexes: self.indexes(fields),
        }
    }

    fn indexes(&mut self, fields: &Fields) -> Vec<Definition> {
        let written = fields.table_map("index");
        if written.len() > INDEXES_MAX {
            let message = format!("found {} indexes, expected at most {INDEXES_MAX}", written.len());
            self.note(fields.problem("index", message));
        }
        let mut indexes: Vec<Definition> = written
            .iter()
            .filter_map(|(name, index)| self.index(name, index))
            .collect();
        indexes.sort_by(|a, b| a.name.cmp(&b.name));
        indexes
    }

    /// Returns `None` after reporting a problem.
    fn index(&mut self, name: &str, index: &Fields) -> Option<Definition> {
        // A missing key has already been reported.
        let written = index.opt_text("records")?;
        let records = path::key(written).map_err(|error| {
            let message =
                format!("found {written:?}, expected a node as in a URL, such as \"Person/data\": {error}");
            self.note(index.problem("records", message));
        });
        let mut fields = Vec::new();
        for spot in index.texts("fields") {
            match parse_field(&spot.text) {
                Ok(field) => fields.push(field),
                Err(error) => {
                    let message = format!(
                        "found {:?}, expected a field such as \"lastName\", \"address.city\" or \"tags.*\": {error}",
                        spot.text
                    );
                    self.note(index.problem_at(spot.line, "fields", message));
                    return None;
                }
            }
        }
        let definition = Definition {
            name: name.to_owned(),
            records: records.ok()?,
            fields,
            unique: index.flag("unique"),
        };
        match definition.check() {
            Ok(()) => Some(definition),
            Err(error) => {
                self.note(index.problem("fields", error.to_string()));
                None
            }
        }
    }

    fn access(&mut self, fields: &Fields) -> BTreeMap<String, Access> {
        let mut access = BTreeMap::new();
        for (global, rules) in fields.table_map("access") {
            if let Err(error) = forebay_store::Key::global(global) {
                self.note(fields.problem_at(rules.line, &format!("access.{global}"), error.to_string()));
            }
            let read = self.permission(rules, "read");
            let write = self.permission(rules, "write");
            access.insert(global.clone(), Access { read, write });
        }
        access
    }

    fn permission(&mut self, rules: &Fields, name: &str) -> Permission {
        let written = rules.text(name);
        let variable = match (written, written.strip_prefix("token:")) {
            ("public", _) => return Permission::Public,
            ("none", _) => return Permission::Nobody,
            (_, Some(variable)) if is_name(variable) => variable,
            _ => {
                let message = format!(
                    "found {written:?}, expected \"public\", \"none\" or \"token:NAME\" with the name of an environment variable"
                );
                self.note(rules.problem(name, message));
                return Permission::Nobody;
            }
        };
        self.held_by(variable, rules, name)
            .map_or(Permission::Nobody, Permission::Token)
    }

    /// The secret in the environment variable named by a key. Returns `None` after reporting a problem.
    pub(super) fn held_by(&mut self, variable: &str, fields: &Fields, name: &str) -> Option<Secret> {
        let value = (self.environment.env)(variable).unwrap_or_default();
        if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = format!(
                "the environment variable `{variable}` must hold the {}: at least one printable ASCII character, no spaces",
                if name == "secret" { "secret" } else { "token" }
            );
            self.note(fields.problem(name, message));
            return None;
        }
        Some(Secret::of_variable(variable, &value))
    }
}
