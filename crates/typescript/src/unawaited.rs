//! Finds calls of clients in the rules of workflows whose promises nothing awaits.
//!
//! Reported is what cannot work: a call whose result is dropped, and one whose promise is used as if it were the result. A promise that is
//! passed on in any other way may be awaited elsewhere and is not reported. Clients are found by the names that rules have for them; a name
//! that a rule declares itself is none.

mod clients;

use std::collections::HashSet;

use swc_common::{FileName, GLOBALS, Globals, Mark, SourceMap, SourceMapper as _, Span, Spanned};
use swc_ecma_ast::{
    AssignPatProp, BinExpr, BinaryOp, BindingIdent, CondExpr, EsVersion, Expr, ExprOrSpread, ExprStmt,
    ForOfStmt, Id, Ident, IfStmt, KeyValuePatProp, KeyValueProp, MemberExpr, NewExpr, ObjectPatProp, Pat,
    Prop, TaggedTpl, Tpl, UnaryExpr, UnaryOp, VarDeclarator, WhileStmt,
};
use swc_ecma_parser::{EsSyntax, Syntax, parse_file_as_program};
use swc_ecma_transforms_base::resolver;
use swc_ecma_visit::{Visit, VisitWith};

use self::clients::{Names, name_of};
use crate::{Problem, on_deep_stack};

/// Longest rule that is looked at, in bytes. It bounds the depth of chains such as `a + a + a`; that of what nests is bounded by the engine,
/// which has compiled the rule.
const BYTES_MAX: usize = 128 << 10;

/// Finds calls of clients whose promises nothing awaits in a rule: files, each with its name, that see the declarations of those before
/// them, and that the engine has compiled. Each is a line, `file:line:column: message`. A rule longer than 128 KiB has none.
pub fn unawaited_calls(files: &[(&str, &str)]) -> Vec<String> {
    let mut text = String::new();
    for (_, file) in files {
        text.push_str(file);
        text.push('\n');
    }
    if text.len() > BYTES_MAX {
        return Vec::new();
    }
    let found = on_deep_stack(|| find(text));
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
        let mut names = Names::new(unresolved);
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
                expr.left.visit_with(self);
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
