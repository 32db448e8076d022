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

/// Which globals clients may read and write.
#[derive(Debug)]
pub(crate) enum Rules {
    /// As `[store.access]` says.
    Configured(BTreeMap<String, Access>),
    /// All of them: the web console, which has been authorized already.
    All,
}

impl Rules {
    /// What holds for a global and an action.
    fn judge(&self, global: &str, action: Action, head: &Head) -> Result<(), Denial> {
        let Self::Configured(of_globals) = self else {
            return Ok(());
        };
        let rule = of_globals.get(global).map(|access| match action {
            Action::Read => &access.read,
            Action::Write => &access.write,
        });
        judge(rule, head)
    }

    pub(crate) fn check_read(&self, global: &str, head: &Head) -> Result<(), Refusal> {
        refused(self.judge(global, Action::Read, head), "read")
    }

    /// The globals of a change feed that a client may read. When there are none, it is refused as for a single global.
    pub(crate) fn readable(&self, head: &Head) -> Result<Readable, Refusal> {
        let Self::Configured(of_globals) = self else {
            return Ok(Readable::All);
        };
        let may = |global: &&String| self.check_read(global, head).is_ok();
        let readable: BTreeSet<String> = of_globals.keys().filter(may).cloned().collect();
        let closed = |access: &&Access| !matches!(access.read, Permission::Nobody);
        if readable.is_empty() {
            let any = of_globals.values().find(closed).map(|access| &access.read);
            refused(judge(any, head), "read")?;
        }
        Ok(Readable::These(readable))
    }

    pub(crate) fn check_write(&self, global: &str, head: &Head) -> Result<(), Refusal> {
        refused(self.judge(global, Action::Write, head), "write")
    }
}

/// The globals whose changes a client may hear of.
#[derive(Debug)]
pub(crate) enum Readable {
    These(BTreeSet<String>),
    All,
}

impl Readable {
    pub(crate) fn has(&self, global: &str) -> bool {
        match self {
            Self::These(globals) => globals.contains(global),
            Self::All => true,
        }
    }
}

fn refused(judged: Result<(), Denial>, what: &'static str) -> Result<(), Refusal> {
    judged.map_err(|denial| match denial {
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
        let Rules::Configured(of_globals) = self.rules else {
            return Grants::everything();
        };
        let judged = |(kind, access): (&String, &Access)| {
            let rules = [&access.read, &access.write];
            (kind.clone(), rules.map(|rule| judge(Some(rule), self.head)))
        };
        Grants::new(of_globals.iter().map(judged).collect())
    }
}

impl forebay_records::Permission for Visitor<'_> {
    fn check(&self, kind: &str, action: Action) -> Result<(), Denial> {
        self.rules.judge(kind, action, self.head)
    }
}
