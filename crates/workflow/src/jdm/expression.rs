//! Expression nodes. Expressions are evaluated in order; each sees the results of the earlier ones as `$`.

use std::rc::Rc;

use serde_json::{Map, Value, json};
use zen_expression::{
    Scope, Variable,
    variable::{RcCell, Symbol, VariableMap},
};

use super::{
    document::Expression,
    program::{Compiler, DOLLAR, Fault, Machine, Program},
    table::CellError,
    value::{Path, copied, to_json},
};
use crate::object::shortened;

/// The compiled expressions of a node.
#[derive(Clone, Debug)]
pub(super) struct Expressions {
    list: Box<[Keyed]>,
    /// Whether any of them reads `$`.
    sees_dollar: bool,
}

#[derive(Clone, Debug)]
struct Keyed {
    key: Box<str>,
    path: Path,
    program: Program,
}

impl Expressions {
    /// Compiles expressions; those without a key or a text are skipped.
    pub(super) fn compile(written: &[Expression], compiler: &mut Compiler) -> Result<Self, Vec<CellError>> {
        let mut list = Vec::with_capacity(written.len());
        let mut flaws = Vec::new();
        let written = written.iter().enumerate();
        for (number, expression) in
            written.filter(|(_, written)| !written.key.is_empty() && !written.text.is_empty())
        {
            let flaw = |text: &str, reason| CellError {
                place: format!("expression {} (`{}`)", number + 1, shortened(&expression.key)),
                text: shortened(text),
                reason,
            };
            let path = Path::of(&expression.key).map_err(|reason| flaw(&expression.key, reason));
            let program = compiler.standard(&expression.text);
            match (
                path,
                program.map_err(|error| flaw(&expression.text, error.to_string())),
            ) {
                (Ok(path), Ok(program)) => list.push(Keyed {
                    key: expression.key.as_str().into(),
                    path,
                    program,
                }),
                (Err(flaw), _) | (_, Err(flaw)) => flaws.push(flaw),
            }
        }
        if !flaws.is_empty() {
            return Err(flaws);
        }
        Ok(Self {
            sees_dollar: list.iter().any(|keyed: &Keyed| keyed.program.sees_dollar),
            list: list.into(),
        })
    }

    /// Evaluates all expressions and returns an object of their values. `trace` receives each value by its key. Fails with the text of the
    /// first expression that has no value.
    pub(super) fn evaluate(
        &self,
        scope: &mut Scope,
        machine: &mut Machine,
        mut trace: Option<&mut Map<String, Value>>,
    ) -> Result<Variable, (String, Fault)> {
        let mut values: RcCell<VariableMap> = RcCell::default();
        // A value that an expression has derived from `$` must neither change with it nor become a part of itself. Once `$` is shared,
        // continue with a copy.
        let holders = if self.sees_dollar { 2 } else { 1 };
        for (number, keyed) in self.list.iter().enumerate() {
            let value = machine.value(&keyed.program, scope);
            let value = value.map_err(|fault| (shortened(&keyed.program.text), fault))?;
            if let Some(trace) = &mut trace {
                trace.insert(keyed.key.to_string(), json!({"result": to_json(&value)}));
            }
            let is_shared = Rc::strong_count(&values) > holders;
            if self.sees_dollar && (is_shared || number == 0) {
                if is_shared {
                    values = copied(&values);
                }
                scope.set_local(Symbol::from_static(DOLLAR), Variable::Object(Rc::clone(&values)));
            }
            keyed.path.lay(&values, value);
        }
        Ok(Variable::Object(values))
    }

    pub(super) fn programs(&self) -> impl Iterator<Item = &Program> {
        self.list.iter().map(|keyed| &keyed.program)
    }
}
