//! Access rules: which clients may read and write which global.

use std::collections::{BTreeMap, BTreeSet};

use forebay_auth::{bearer, is_same};
use forebay_records::{Action, Denial};

use crate::{
    config::{Access, Permission},
    failure::Refusal,
    front::Head,
    store::Grants,
};

/// The rules of `[store.access]`.
#[derive(Debug)]
pub(crate) struct Rules {
    of_globals: BTreeMap<String, Access>,
}

impl Rules {
    pub(crate) fn new(of_globals: &BTreeMap<String, Access>) -> Self {
        Self {
            of_globals: of_globals.clone(),
        }
    }

    pub(crate) fn check_read(&self, global: &str, head: &Head) -> Result<(), Refusal> {
        let rule = self.of_globals.get(global).map(|access| &access.read);
        check(rule, "read", head)
    }

    /// The globals that a client may read. When there are none, it is refused as for a single global.
    pub(crate) fn readable(&self, head: &Head) -> Result<BTreeSet<String>, Refusal> {
        let may = |global: &&String| self.check_read(global, head).is_ok();
        let readable: BTreeSet<String> = self.of_globals.keys().filter(may).cloned().collect();
        let closed = |access: &&Access| !matches!(access.read, Permission::Nobody);
        if readable.is_empty() {
            let any = self.of_globals.values().find(closed).map(|access| &access.read);
            check(any, "read", head)?;
        }
        Ok(readable)
    }

    pub(crate) fn check_write(&self, global: &str, head: &Head) -> Result<(), Refusal> {
        let rule = self.of_globals.get(global).map(|access| &access.write);
        check(rule, "write", head)
    }
}

fn check(rule: Option<&Permission>, what: &'static str, head: &Head) -> Result<(), Refusal> {
    judge(rule, head).map_err(|denial| match denial {
        Denial::Nobody => Refusal::Closed { what },
        Denial::TokenNeeded => Refusal::TokenNeeded { what },
        Denial::WrongToken => Refusal::WrongToken { what },
    })
}

fn judge(rule: Option<&Permission>, head: &Head) -> Result<(), Denial> {
    match rule.unwrap_or(&Permission::Nobody) {
        Permission::Public => Ok(()),
        Permission::Nobody => Err(Denial::Nobody),
        Permission::Token(token) => match head.field("authorization").and_then(bearer) {
            None => Err(Denial::TokenNeeded),
            Some(found) if is_same(found, token.reveal().as_bytes()) => Ok(()),
            Some(_) => Err(Denial::WrongToken),
        },
    }
}

/// A request's permissions on records; each kind of record is a global.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visitor<'r> {
    pub(crate) rules: &'r Rules,
    pub(crate) head: &'r Head,
}

impl Visitor<'_> {
    /// The decisions for every kind, as a value that outlives the request.
    pub(crate) fn grants(&self) -> Grants {
        let judged = |(kind, access): (&String, &Access)| {
            let rules = [&access.read, &access.write];
            (kind.clone(), rules.map(|rule| judge(Some(rule), self.head)))
        };
        Grants::new(self.rules.of_globals.iter().map(judged).collect())
    }
}

impl forebay_records::Permission for Visitor<'_> {
    fn check(&self, kind: &str, action: Action) -> Result<(), Denial> {
        let rule = self.rules.of_globals.get(kind);
        let rule = rule.map(|access| match action {
            Action::Read => &access.read,
            Action::Write => &access.write,
        });
        judge(rule, self.head)
    }
}
