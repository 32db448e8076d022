//! Clients as rules name them: getters of the context, constructors, globals, and the variables that hold them.

use std::collections::HashMap;

use swc_common::{Mark, Span, Spanned as _, SyntaxContext};
use swc_ecma_ast::{AssignPatProp, BindingIdent, Expr, Id, MemberProp, ObjectPatProp, Pat, VarDeclarator};
use swc_ecma_visit::{Visit, VisitWith as _};

/// An object with methods that return promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Database,
    Executor,
    Http,
    Jdbc,
    Kafka,
    Lock,
    Locks,
    Mail,
    Pool,
    Process,
    Redis,
    Response,
    S3,
}

impl Client {
    /// The client that a constructor among the globals creates.
    fn of_constructor(name: &str) -> Option<Self> {
        Some(match name {
            "ScriptHttpClient" => Self::Http,
            "ScriptProcessClient" => Self::Process,
            "ScriptRedisLockClient" => Self::Locks,
            "ScriptS3Client" => Self::S3,
            _ => return None,
        })
    }

    /// The client that a method of the context or its data service returns. The names are distinctive enough to tell without the object.
    fn of_getter(name: &str) -> Option<Self> {
        Some(match name {
            "getDefaultHttpClient" => Self::Http,
            "getDefaultProcessClient" => Self::Process,
            "getDefaultRedisLockClient" => Self::Locks,
            "getDefaultS3Client" | "obtainS3Client" => Self::S3,
            "getExecutor" => Self::Executor,
            "obtainJdbcDSFacade" => Self::Jdbc,
            "obtainKafkaDSFacade" => Self::Kafka,
            "obtainNotifier" => Self::Mail,
            "obtainRedisDSFacade" => Self::Redis,
            _ => return None,
        })
    }

    /// Its methods that return promises.
    fn promises(self) -> &'static [&'static str] {
        match self {
            Self::Database => &["query", "row", "value", "pipeline", "tx", "copyIn"],
            Self::Executor => &["submitForComplete"],
            Self::Http => &[
                "getForText",
                "postForText",
                "getForJson",
                "postForJson",
                "exchange",
                "download",
                "upload",
            ],
            Self::Jdbc => &["findList", "insert", "update", "batch", "insertBatch"],
            Self::Kafka => &["publish"],
            Self::Lock => &["lock", "tryLock", "unlock"],
            Self::Locks => &[],
            Self::Mail => &["send"],
            Self::Pool => &["fetch"],
            Self::Process => &["execute"],
            Self::Redis => &[
                "get", "set", "setex", "setnx", "setnxex", "del", "expire", "hgetAll", "hget", "hset",
                "hsetnx", "eval",
            ],
            Self::Response => &["arrayBuffer", "blob", "bytes", "formData", "json", "text"],
            Self::S3 => &[
                "uploadObject",
                "downloadObject",
                "removeObject",
                "getObjectAsString",
                "statObject",
            ],
        }
    }
}

/// The variables of a rule that hold clients, or promises of their calls.
pub(super) struct Names {
    /// Marks names that the rule does not declare.
    global: SyntaxContext,
    /// How often each variable is declared or assigned to.
    pub(super) bindings: HashMap<Id, usize>,
    clients: HashMap<Id, Client>,
    /// Callees of the calls whose promises variables hold.
    pub(super) calls: HashMap<Id, Span>,
}

impl Names {
    /// No variables yet; `unresolved` marks names that the rule does not declare.
    pub(super) fn new(unresolved: Mark) -> Self {
        Self {
            global: SyntaxContext::empty().apply_mark(unresolved),
            bindings: HashMap::new(),
            clients: HashMap::new(),
            calls: HashMap::new(),
        }
    }

    /// The name of a global.
    pub(super) fn global<'e>(&self, expr: &'e Expr) -> Option<&'e str> {
        let name = expr.as_ident()?;
        (name.ctxt == self.global).then_some(&*name.sym)
    }

    /// The client that an expression gives.
    fn client(&self, expr: &Expr) -> Option<Client> {
        match expr {
            Expr::Paren(inner) => self.client(&inner.expr),
            Expr::Ident(name) => {
                let id = name.to_id();
                let client = self.clients.get(&id).copied();
                client.filter(|_| self.bindings.get(&id) == Some(&1))
            }
            Expr::New(new) => Client::of_constructor(self.global(&new.callee)?),
            Expr::Await(awaited) => {
                let callee = self.callee(&awaited.arg)?;
                let name = self.global(callee).or_else(|| name_of(&callee.as_member()?.prop));
                (name == Some("fetch")).then_some(Client::Response)
            }
            Expr::Member(member) => match self.global(&member.obj)? {
                "pools" => Some(Client::Pool),
                "sql" => Some(Client::Database),
                _ => None,
            },
            Expr::Call(call) => {
                let member = call.callee.as_expr()?.as_member()?;
                let name = name_of(&member.prop)?;
                match self.client(&member.obj) {
                    Some(Client::Locks) => (name == "getLock").then_some(Client::Lock),
                    Some(_) => None,
                    None => Client::of_getter(name).filter(|_| !member.obj.is_this()),
                }
            }
            _ => None,
        }
    }

    /// The callee, if an expression is a call of a client, which gives a promise.
    pub(super) fn callee<'e>(&self, expr: &'e Expr) -> Option<&'e Expr> {
        match expr {
            Expr::Paren(inner) => self.callee(&inner.expr),
            Expr::TaggedTpl(tagged) => (self.client(&tagged.tag)? == Client::Database).then_some(&tagged.tag),
            Expr::Call(call) => {
                let callee = call.callee.as_expr()?;
                let gives_promise = match &**callee {
                    Expr::Member(member) => {
                        let name = name_of(&member.prop)?;
                        self.client(&member.obj)?.promises().contains(&name)
                    }
                    other => self.global(other)? == "fetch",
                };
                gives_promise.then_some(callee)
            }
            _ => None,
        }
    }
}

impl Visit for Names {
    fn visit_binding_ident(&mut self, name: &BindingIdent) {
        *self.bindings.entry(name.to_id()).or_default() += 1;
    }

    fn visit_var_declarator(&mut self, declarator: &VarDeclarator) {
        declarator.visit_children_with(self);
        let Some(init) = declarator.init.as_deref() else {
            return;
        };
        match &declarator.name {
            Pat::Ident(name) => {
                if let Some(client) = self.client(init) {
                    self.clients.insert(name.to_id(), client);
                } else if let Some(callee) = self.callee(init) {
                    self.calls.insert(name.to_id(), callee.span());
                }
            }
            Pat::Object(pattern) => {
                let client = match self.global(init) {
                    Some("pools") => Client::Pool,
                    Some("sql") => Client::Database,
                    _ => return,
                };
                for property in &pattern.props {
                    if let ObjectPatProp::Assign(AssignPatProp { key, value: None, .. }) = property {
                        self.clients.insert(key.to_id(), client);
                    }
                }
            }
            _ => {}
        }
    }
}

pub(super) fn name_of(property: &MemberProp) -> Option<&str> {
    Some(&*property.as_ident()?.sym)
}
