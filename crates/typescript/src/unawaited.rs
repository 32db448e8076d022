//! Finds calls of clients in the rules of workflows whose promises nothing awaits.
//!
//! Reported is what cannot work: a call whose result is dropped, and one whose promise is used as if it were the result. A promise that is
//! passed on in any other way may be awaited elsewhere and is not reported. Clients are found by the names that rules have for them; a name
//! that a rule declares itself is none.

use std::{
    collections::{HashMap, HashSet},
    thread,
};

use swc_common::{
    FileName, GLOBALS, Globals, Mark, SourceMap, SourceMapper as _, Span, Spanned, SyntaxContext,
};
use swc_ecma_ast::{
    AssignPatProp, BinExpr, BinaryOp, BindingIdent, CondExpr, EsVersion, Expr, ExprOrSpread, ExprStmt,
    ForOfStmt, Id, Ident, IfStmt, KeyValuePatProp, KeyValueProp, MemberExpr, MemberProp, NewExpr,
    ObjectPatProp, Pat, Prop, TaggedTpl, Tpl, UnaryExpr, UnaryOp, VarDeclarator, WhileStmt,
};
use swc_ecma_parser::{EsSyntax, Syntax, parse_file_as_program};
use swc_ecma_transforms_base::resolver;
use swc_ecma_visit::{Visit, VisitWith};

use crate::Problem;

/// Longest rule that is looked at, in bytes. It bounds the depth of the syntax tree, and with it the stack that is needed.
const BYTES_MAX: usize = 128 << 10;
const STACK_BYTES: usize = 256 << 20;

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

/// Finds calls of clients whose promises nothing awaits in a rule: files, each with its name, that see the declarations of those before
/// them. Each is a line, `file:line:column: message`. A rule that cannot be parsed, or is longer than 128 KiB, has none.
pub fn unawaited_calls(files: &[(&str, &str)]) -> Vec<String> {
    let mut text = String::new();
    for (_, file) in files {
        text.push_str(file);
        text.push('\n');
    }
    if text.len() > BYTES_MAX {
        return Vec::new();
    }
    // The depth of recursion is that of the syntax tree.
    let analysis = thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(|| find(text));
    let found = analysis.ok().and_then(|analysis| analysis.join().ok());
    let mut rest = found.unwrap_or_default().into_iter().peekable();
    let mut before = 0;
    let mut lines = Vec::new();
    for (name, file) in files {
        let until = before + file.matches('\n').count() + 1;
        while let Some(mut problem) = rest.next_if(|problem| problem.line <= until) {
            problem.line -= before;
            lines.push(format!("{name}:{problem}"));
        }
        before = until;
    }
    lines
}

/// Finds the calls, in the order of their places.
fn find(text: String) -> Vec<Problem> {
    let map = SourceMap::default();
    let file = map.new_source_file(FileName::Anon.into(), text);
    let syntax = Syntax::Es(EsSyntax {
        allow_return_outside_function: true,
        ..EsSyntax::default()
    });
    let spans = GLOBALS.set(&Globals::new(), || {
        let program =
            parse_file_as_program(&file, syntax, EsVersion::latest(), None, &mut Vec::new()).ok()?;
        let (unresolved, top_level) = (Mark::new(), Mark::new());
        let program = program.apply(resolver(unresolved, top_level, false));
        let mut names = Names {
            global: SyntaxContext::empty().apply_mark(unresolved),
            bindings: HashMap::new(),
            clients: HashMap::new(),
            calls: HashMap::new(),
        };
        program.visit_with(&mut names);
        let mut uses = Uses {
            names,
            passed_on: HashSet::new(),
            unawaited: Vec::new(),
        };
        program.visit_with(&mut uses);
        Some(uses.unawaited())
    });
    let mut spans = spans.unwrap_or_default();
    spans.sort_unstable();
    spans.dedup();
    let problem = |span: Span| {
        let place = map.lookup_char_pos(span.lo);
        let words = map.span_to_snippet(span).unwrap_or_default();
        let callee = words
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .replace(" .", ".");
        Problem {
            line: place.line,
            column: place.col.0 + 1,
            message: format!(
                "`{callee}` returns a promise that nothing awaits: write `await` before the call, in an `async` function"
            ),
        }
    };
    spans.into_iter().map(problem).collect()
}

/// The variables of a rule that hold clients, or promises of their calls.
struct Names {
    /// Marks names that the rule does not declare.
    global: SyntaxContext,
    /// How often each variable is declared or assigned to.
    bindings: HashMap<Id, usize>,
    clients: HashMap<Id, Client>,
    /// Callees of the calls whose promises variables hold.
    calls: HashMap<Id, Span>,
}

impl Names {
    fn global<'e>(&self, expr: &'e Expr) -> Option<&'e str> {
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
    fn callee<'e>(&self, expr: &'e Expr) -> Option<&'e Expr> {
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

fn name_of(property: &MemberProp) -> Option<&str> {
    Some(&*property.as_ident()?.sym)
}

/// Whether a member is one of promises themselves.
fn is_of_promise(name: &str) -> bool {
    matches!(name, "then" | "catch" | "finally")
}

/// Looks at every use of a promise. A variable is reported if no use passes its promise on.
struct Uses {
    names: Names,
    /// Variables whose promises are awaited, or passed on to where they may be.
    passed_on: HashSet<Id>,
    /// Callees of calls that nothing awaits.
    unawaited: Vec<Span>,
}

impl Uses {
    fn unawaited(self) -> Vec<Span> {
        let Self {
            names,
            passed_on,
            mut unawaited,
        } = self;
        let of_variables = names.calls.into_iter().filter_map(|(id, callee)| {
            let is_constant = names.bindings.get(&id) == Some(&1);
            (is_constant && !passed_on.contains(&id)).then_some(callee)
        });
        unawaited.extend(of_variables);
        unawaited
    }

    /// An expression that is used as a value and not as a promise.
    fn value(&mut self, expr: &Expr) {
        match expr {
            Expr::Paren(inner) => self.value(&inner.expr),
            Expr::Ident(name) if self.names.calls.contains_key(&name.to_id()) => {}
            _ => {
                let callee = self.names.callee(expr).map(Spanned::span);
                self.unawaited.extend(callee);
                expr.visit_with(self);
            }
        }
    }

    /// An expression whose value is dropped, or only tested.
    fn dropped(&mut self, expr: &Expr) {
        match expr {
            Expr::Paren(inner) => self.dropped(&inner.expr),
            Expr::Bin(both) if both.op.may_short_circuit() => {
                self.dropped(&both.left);
                self.dropped(&both.right);
            }
            Expr::Cond(all) => {
                for part in [&all.test, &all.cons, &all.alt] {
                    self.dropped(part);
                }
            }
            _ => self.value(expr),
        }
    }
}

impl Visit for Uses {
    fn visit_ident(&mut self, name: &Ident) {
        self.passed_on.insert(name.to_id());
    }

    fn visit_binding_ident(&mut self, _: &BindingIdent) {}

    fn visit_expr_stmt(&mut self, statement: &ExprStmt) {
        self.dropped(&statement.expr);
    }

    fn visit_if_stmt(&mut self, statement: &IfStmt) {
        self.dropped(&statement.test);
        statement.cons.visit_with(self);
        statement.alt.visit_with(self);
    }

    fn visit_while_stmt(&mut self, statement: &WhileStmt) {
        self.dropped(&statement.test);
        statement.body.visit_with(self);
    }

    fn visit_cond_expr(&mut self, expr: &CondExpr) {
        self.dropped(&expr.test);
        expr.cons.visit_with(self);
        expr.alt.visit_with(self);
    }

    fn visit_unary_expr(&mut self, expr: &UnaryExpr) {
        match expr.op {
            UnaryOp::Bang => self.dropped(&expr.arg),
            UnaryOp::Plus | UnaryOp::Minus | UnaryOp::Tilde => self.value(&expr.arg),
            UnaryOp::TypeOf | UnaryOp::Void | UnaryOp::Delete => expr.arg.visit_with(self),
        }
    }

    fn visit_bin_expr(&mut self, expr: &BinExpr) {
        match expr.op {
            BinaryOp::LogicalAnd => self.dropped(&expr.left),
            BinaryOp::LogicalOr | BinaryOp::NullishCoalescing | BinaryOp::InstanceOf => {
                expr.left.visit_with(self)
            }
            _ => {
                self.value(&expr.left);
                return self.value(&expr.right);
            }
        }
        expr.right.visit_with(self);
    }

    fn visit_member_expr(&mut self, expr: &MemberExpr) {
        if name_of(&expr.prop).is_some_and(is_of_promise) {
            expr.obj.visit_with(self);
        } else {
            self.value(&expr.obj);
            expr.prop.visit_with(self);
        }
    }

    fn visit_tagged_tpl(&mut self, tagged: &TaggedTpl) {
        tagged.tag.visit_with(self);
        tagged.tpl.exprs.visit_with(self);
    }

    fn visit_tpl(&mut self, template: &Tpl) {
        for expr in &template.exprs {
            self.value(expr);
        }
    }

    fn visit_for_of_stmt(&mut self, statement: &ForOfStmt) {
        statement.left.visit_with(self);
        if statement.is_await {
            statement.right.visit_with(self);
        } else {
            self.value(&statement.right);
        }
        statement.body.visit_with(self);
    }

    fn visit_expr_or_spread(&mut self, item: &ExprOrSpread) {
        if item.spread.is_some() {
            self.value(&item.expr);
        } else {
            item.expr.visit_with(self);
        }
    }

    fn visit_var_declarator(&mut self, declarator: &VarDeclarator) {
        let takes_parts = match &declarator.name {
            Pat::Array(_) => true,
            Pat::Object(pattern) => pattern.props.iter().all(|property| match property {
                ObjectPatProp::Assign(AssignPatProp { key, .. }) => !is_of_promise(&key.sym),
                ObjectPatProp::KeyValue(KeyValuePatProp { key, .. }) => {
                    key.as_ident().is_some_and(|name| !is_of_promise(&name.sym))
                }
                ObjectPatProp::Rest(_) => false,
            }),
            _ => false,
        };
        declarator.name.visit_with(self);
        match &declarator.init {
            Some(init) if takes_parts => self.value(init),
            init => init.visit_with(self),
        }
    }

    fn visit_new_expr(&mut self, new: &NewExpr) {
        if self.names.global(&new.callee) != Some("ScriptResult") {
            return new.visit_children_with(self);
        }
        // The values of a result are JSON, which has no promises.
        for ExprOrSpread { expr, .. } in new.args.iter().flatten() {
            let Expr::Object(values) = &**expr else {
                self.value(expr);
                continue;
            };
            for property in &values.props {
                match property.as_prop().map(|property| &**property) {
                    Some(Prop::KeyValue(KeyValueProp { value, .. })) => self.value(value),
                    Some(Prop::Shorthand(name)) => self.value(&Expr::Ident(name.clone())),
                    _ => property.visit_with(self),
                }
            }
        }
    }
}
