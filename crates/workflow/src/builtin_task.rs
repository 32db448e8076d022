//! Nodes that send a request to a database, the store, a server or a pool, and need no rule for it.

use serde_json::{Map, Value};

use crate::{
    DefinitionError,
    object::{Object, shown},
};

/// Maximum number of parameters, subscripts, headers, query members or statuses of one node.
const PARTS_MAX: usize = 1000;
/// The accepted forms of a value, for error messages.
const GIVEN: &str =
    "a place (`args`, `last`, `item` or `attributes`, and names behind points), or {\"value\": a constant}";
/// Members that every node may have.
const COMMON: [&str; 7] = [
    "@type",
    "id",
    "name",
    "priority",
    "timeoutMs",
    "fallback",
    "attributes",
];
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// The request that a node makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuiltinTask {
    /// Executes a statement on a database.
    Sql {
        /// The name of the database.
        source: String,
        /// The statement, with parameters written as `:name`.
        query: String,
        /// The parameters with their names.
        parameters: Vec<(String, Operand)>,
        /// The part of the result to return.
        result: ResultMode,
    },
    /// Reads or changes a node of the store.
    Store {
        /// The operation on the node.
        operation: Operation,
        /// The global that contains the node.
        global: String,
        /// The node's subscripts within the global.
        subscripts: Vec<Operand>,
        /// The value to set or the number to add. An increment without a value adds 1.
        value: Option<Operand>,
    },
    /// Sends an HTTP request.
    Http {
        /// Begins with `http://` or `https://`.
        url: String,
        /// Method, query, headers, body and accepted statuses.
        request: Request,
    },
    /// Sends a request to a worker pool.
    Pool {
        /// The name of the pool.
        pool: String,
        /// Begins with `/` and has no query.
        path: String,
        /// Method, query, headers, body and accepted statuses.
        request: Request,
    },
}

/// A request without its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method in upper case.
    pub method: String,
    /// Parameters to add to the query of the address.
    pub query: Vec<(String, Operand)>,
    /// Header fields: name and value.
    pub headers: Vec<(String, Operand)>,
    /// The request body.
    pub body: Option<Operand>,
    /// Statuses that count as success, each from 100 to 599. If empty: 200 to 299.
    pub ok: Vec<u16>,
}

/// The part of a statement's result to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultMode {
    /// All rows.
    Rows,
    /// The first row.
    Row,
    /// The first value of the first row.
    Value,
    /// The number of rows returned or changed.
    Count,
}

/// An operation on a node of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads the value.
    Get,
    /// Sets the value.
    Set,
    /// Adds a number to the value.
    Increment,
    /// Removes the node and all its descendants.
    Remove,
}

/// An operand: a constant or a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A constant JSON value.
    Constant(Value),
    /// A reference that is resolved when the node runs: `args`, `last`, `item` or `attributes`, then member names separated by dots.
    Place(String),
}

impl Operand {
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(place) => {
                let mut names = place.split('.');
                let root = names.next()?;
                let is_known = ["args", "last", "item", "attributes"].contains(&root);
                (is_known && names.all(|name| !name.is_empty())).then(|| Self::Place(place.clone()))
            }
            Value::Object(members) if members.len() == 1 => {
                members.get("value").map(|value| Self::Constant(value.clone()))
            }
            _ => None,
        }
    }
}

impl BuiltinTask {
    /// Reads the request of a node of this kind. `None` if the kind is not a built-in task.
    pub(crate) fn of(kind: &str, object: &Object<'_>) -> Result<Option<Self>, DefinitionError> {
        let (own, task): (&[&str], _) = match kind {
            "SQL" => (&["source", "query", "parameters", "result"], Self::sql(object)?),
            "STORE" => (
                &["operation", "global", "subscripts", "value"],
                Self::store(object)?,
            ),
            "HTTP" => (
                &["method", "url", "query", "headers", "body", "ok"],
                Self::http(object)?,
            ),
            "POOL" => (
                &["pool", "method", "path", "query", "headers", "body", "ok"],
                Self::pool(object)?,
            ),
            _ => return Ok(None),
        };
        let is_known = |member: &str| own.contains(&member) || COMMON.contains(&member);
        match object.members.keys().find(|member| !is_known(member)) {
            None => Ok(Some(task)),
            Some(member) => Err(DefinitionError::Unknown {
                at: object.at.clone(),
                member: member.clone(),
                accepted: [own, &COMMON].concat().join(", "),
            }),
        }
    }

    fn sql(object: &Object<'_>) -> Result<Self, DefinitionError> {
        Ok(Self::Sql {
            source: object.needed("source")?.to_owned(),
            query: object.needed("query")?.to_owned(),
            parameters: object.all_given("parameters")?,
            result: match object.text("result")? {
                None | Some("rows") => ResultMode::Rows,
                Some("row") => ResultMode::Row,
                Some("value") => ResultMode::Value,
                Some("count") => ResultMode::Count,
                Some(_) => return Err(object.unexpected("result", "rows, row, value or count")),
            },
        })
    }

    fn store(object: &Object<'_>) -> Result<Self, DefinitionError> {
        let operation = match object.needed("operation")? {
            "get" => Operation::Get,
            "set" => Operation::Set,
            "increment" => Operation::Increment,
            "remove" => Operation::Remove,
            _ => return Err(object.unexpected("operation", "get, set, increment or remove")),
        };
        let value = object.given("value")?;
        match operation {
            Operation::Set if value.is_none() => return Err(object.missing("value")),
            Operation::Get | Operation::Remove if value.is_some() => {
                return Err(object.unexpected("value", "nothing: only set and increment take a value"));
            }
            _ => {}
        }
        Ok(Self::Store {
            operation,
            global: object.needed("global")?.to_owned(),
            subscripts: object.list_given("subscripts")?,
            value,
        })
    }

    fn http(object: &Object<'_>) -> Result<Self, DefinitionError> {
        let url = object.needed("url")?;
        let host = ["http://", "https://"]
            .iter()
            .find_map(|scheme| url.strip_prefix(scheme));
        if host.is_none_or(|host| host.is_empty() || host.contains(|letter: char| letter <= ' ')) {
            return Err(object.unexpected("url", "an address that begins with http:// or https://"));
        }
        Ok(Self::Http {
            url: url.to_owned(),
            request: Request::read(object)?,
        })
    }

    fn pool(object: &Object<'_>) -> Result<Self, DefinitionError> {
        let path = object.needed("path")?;
        let is_path = path.starts_with('/') && !path.starts_with("//");
        if !is_path || path.contains(|letter: char| letter <= ' ' || "?#\\".contains(letter)) {
            return Err(object.unexpected("path", "a path that begins with one /, without a query"));
        }
        Ok(Self::Pool {
            pool: object.needed("pool")?.to_owned(),
            path: path.to_owned(),
            request: Request::read(object)?,
        })
    }
}

impl Request {
    fn read(object: &Object<'_>) -> Result<Self, DefinitionError> {
        let method = match object.text("method")? {
            None => "GET",
            Some(method) if METHODS.contains(&method) => method,
            Some(_) => {
                return Err(object.unexpected("method", "GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS"));
            }
        };
        let body = object.given("body")?;
        if body.is_some() && ["GET", "HEAD"].contains(&method) {
            return Err(object.unexpected("body", "nothing: GET and HEAD send no body"));
        }
        Ok(Self {
            method: method.to_owned(),
            query: object.all_given("query")?,
            headers: object.all_given("headers")?,
            body,
            ok: object.statuses("ok")?,
        })
    }
}

/// Readers for members that only built-in tasks have.
impl Object<'_> {
    fn given(&self, member: &'static str) -> Result<Option<Operand>, DefinitionError> {
        self.get(member)
            .map(|value| self.part(member, None, value))
            .transpose()
    }

    /// Reads an operand: the value of a member, or of a part of one.
    fn part(
        &self,
        member: &'static str,
        name: Option<&str>,
        value: &Value,
    ) -> Result<Operand, DefinitionError> {
        Operand::read(value).ok_or_else(|| DefinitionError::Unexpected {
            at: self.at.clone(),
            member: name.map_or_else(|| member.to_owned(), |name| format!("{member}.{name}")),
            found: shown(value),
            expected: GIVEN,
        })
    }

    fn all_given(&self, member: &'static str) -> Result<Vec<(String, Operand)>, DefinitionError> {
        let none = Map::new();
        let members = match self.get(member) {
            None => &none,
            Some(Value::Object(members)) if members.len() <= PARTS_MAX => members,
            Some(_) => return Err(self.unexpected(member, "an object of at most 1000 members")),
        };
        let given =
            |(name, value): (&String, &Value)| Ok((name.clone(), self.part(member, Some(name), value)?));
        members.iter().map(given).collect()
    }

    /// A list of at most [`PARTS_MAX`] values.
    fn parts(&self, member: &'static str) -> Result<&[Value], DefinitionError> {
        match self.get(member) {
            None => Ok(&[]),
            Some(Value::Array(list)) if list.len() <= PARTS_MAX => Ok(list),
            Some(_) => Err(self.unexpected(member, "a list of at most 1000")),
        }
    }

    fn list_given(&self, member: &'static str) -> Result<Vec<Operand>, DefinitionError> {
        let list = self.parts(member)?.iter().enumerate();
        list.map(|(at, value)| self.part(member, Some(&at.to_string()), value))
            .collect()
    }

    fn statuses(&self, member: &'static str) -> Result<Vec<u16>, DefinitionError> {
        let status = |value: &Value| match value.as_u64() {
            Some(status @ 100..=599) => Ok(status as u16),
            _ => Err(self.unexpected(member, "a list of statuses from 100 to 599")),
        };
        self.parts(member)?.iter().map(status).collect()
    }
}
