//! Compiled expressions and the machine that evaluates them.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Instant,
};

use serde_json::Value;
use thiserror::Error;
use zen_expression::{
    Isolate, IsolateError, Scope, Variable,
    compiler::{FetchFastTarget, Opcode},
    variable::Symbol,
    vm::VM,
};

use super::{
    bounds,
    clock::{CLOCK, clock},
    value::{Excess, NODES, from_json, measure, to_json},
};
use crate::object::shortened;

/// Maximum length of an expression.
const TEXT_MAX_BYTES: usize = 16 << 10;
/// Maximum nesting of brackets in an expression.
const NESTED_MAX: usize = 64;

/// Expressions longer than this are compiled on a separate stack: the compiler recurses once for each operator in a chain.
const SHALLOW_MAX_BYTES: usize = 256;
/// Size of that stack for each byte of the expression. Most of it is never touched.
const STACK_BYTES: usize = 4 << 10;

/// The variable for the previous value, or for the value that a unary test is about.
pub(super) const DOLLAR: &str = "$";

/// A compiled expression.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) text: Arc<str>,
    pub(super) code: Arc<[Opcode]>,
    /// Whether it may read `$`.
    pub(super) sees_dollar: bool,
    /// Whether it may read `$nodes`.
    pub(super) sees_nodes: bool,
    loops: Loops,
}

/// Whether an expression contains a loop.
#[derive(Clone, Copy, Debug)]
enum Loops {
    None,
    /// It also reads `$root`, the whole scope as one value.
    BesideRoot,
    Some,
}

/// The reason why an expression has no value.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Fault {
    /// It cannot be evaluated with this input; the machine's message.
    #[error("{0}")]
    Failed(String),
    /// It expands a range of too many numbers.
    #[error("it goes over a range of more than {} numbers", super::ITEMS_MAX)]
    Range,
    /// Its nested loops have too many iterations.
    #[error("loops within one another go over more than {} items", bounds::LOOPED_MAX)]
    Loops,
    /// It names a text or a list that is too long.
    #[error(
        "it names a text or a list of more than {} characters or items",
        bounds::TEXT_MAX
    )]
    Text,
    /// It compares too much text.
    #[error(
        "`fuzzyMatch` compares texts whose lengths, multiplied, are more than {}",
        bounds::LIKENED_MAX
    )]
    Likened,
    /// A loop was still running at the deadline.
    #[error("it was not done when the time of the run was over")]
    Late,
    /// Its value exceeds a size limit.
    #[error("{0}")]
    TooMuch(Excess),
    /// The machine panicked.
    #[error("it asks for something that cannot be evaluated")]
    Panicked,
}

/// Why an expression does not compile.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(super) enum CompileError {
    /// The compiler's message.
    #[error("{0}")]
    Syntax(String),
    /// It exceeds a limit.
    #[error("{0}")]
    Limit(String),
}

/// Compiles expressions and caches them by text.
pub(super) struct Compiler {
    isolate: Isolate,
    standard: HashMap<Arc<str>, Program>,
    unary: HashMap<Arc<str>, Program>,
}

impl Compiler {
    pub(super) fn new() -> Self {
        Self {
            isolate: Isolate::new(),
            standard: HashMap::new(),
            unary: HashMap::new(),
        }
    }

    /// Compiles an expression that computes a value.
    pub(super) fn standard(&mut self, text: &str) -> Result<Program, CompileError> {
        if let Some(program) = self.standard.get(text) {
            return Ok(program.clone());
        }
        let program = self.compile(text, |isolate| {
            isolate
                .compile_standard(text)
                .map(|expression| expression.bytecode().clone())
        })?;
        self.standard.insert(Arc::clone(&program.text), program.clone());
        Ok(program)
    }

    /// Compiles a unary test: a condition on `$`.
    pub(super) fn unary(&mut self, text: &str) -> Result<Program, CompileError> {
        if let Some(program) = self.unary.get(text) {
            return Ok(program.clone());
        }
        let program = self.compile(text, |isolate| {
            isolate
                .compile_unary(text)
                .map(|expression| expression.bytecode().clone())
        })?;
        self.unary.insert(Arc::clone(&program.text), program.clone());
        Ok(program)
    }

    fn compile(
        &mut self,
        text: &str,
        compile: impl FnOnce(&mut Isolate) -> Result<Arc<[Opcode]>, IsolateError>,
    ) -> Result<Program, CompileError> {
        let limit = |reason: String| Err(CompileError::Limit(reason));
        if text.len() > TEXT_MAX_BYTES {
            return limit(format!("it has {} bytes, at most {TEXT_MAX_BYTES}", text.len()));
        }
        if nesting(text) > NESTED_MAX {
            return limit(format!("more than {NESTED_MAX} brackets are within one another"));
        }
        let isolate = &mut self.isolate;
        let compile = || catch_unwind(AssertUnwindSafe(|| compile(isolate)));
        let compiled = if text.len() > SHALLOW_MAX_BYTES {
            stacker::grow(text.len() * STACK_BYTES, compile)
        } else {
            compile()
        };
        let code = match compiled {
            Ok(Ok(code)) => bounds::guarded(&code).map_err(CompileError::Limit)?,
            Ok(Err(error)) => return Err(CompileError::Syntax(error.to_string())),
            Err(_) => {
                self.isolate = Isolate::new();
                return limit("the compiler cannot read it".to_owned());
            }
        };
        let sees_all = code.iter().any(|code| match code {
            Opcode::FetchRootEnv => true,
            Opcode::FetchFast(path) => {
                !matches!(path[..], [FetchFastTarget::Begin, FetchFastTarget::String(_), ..])
            }
            _ => false,
        });
        let sees = |name: &str| sees_all || code.iter().any(|code| names(code, name));
        Ok(Program {
            sees_dollar: sees(DOLLAR),
            sees_nodes: sees(NODES),
            loops: loops(&code),
            text: Arc::from(text),
            code,
        })
    }
}

impl Program {
    /// A program in place of an expression that cannot be parsed: it always fails, so that it matches nothing.
    pub(super) fn failing(text: &str) -> Self {
        Self {
            text: Arc::from(text),
            code: [Opcode::Pointer(u32::MAX)].into(),
            sees_dollar: false,
            sees_nodes: false,
            loops: Loops::None,
        }
    }
}

/// Evaluates an expression that is not part of a document, or a unary test of the context's `$`; a loop in it stops at the deadline. The
/// error is the reason why there is no value.
pub fn evaluate(
    text: &str,
    context: Value,
    is_unary: bool,
    deadline: Option<Instant>,
) -> Result<Value, String> {
    let mut compiler = Compiler::new();
    let program = if is_unary {
        compiler.unary(text)
    } else {
        compiler.standard(text)
    };
    let program = program.map_err(|error| format!("`{}`: {error}", shortened(text)))?;
    let context = from_json(context).map_err(|excess| excess.to_string())?;
    let value = Machine::new(deadline).value(&program, &Scope::new(context));
    match value {
        Ok(value) => Ok(to_json(&value)),
        Err(fault) => Err(format!("`{}`: {fault}", shortened(text))),
    }
}

fn loops(code: &[Opcode]) -> Loops {
    let is_root = |code: &Opcode| match code {
        Opcode::FetchRootEnv => true,
        Opcode::FetchFast(path) => matches!(path[..], [FetchFastTarget::Root, ..]),
        _ => false,
    };
    if !code.iter().any(|code| matches!(code, Opcode::IncrementIt)) {
        Loops::None
    } else if code.iter().any(is_root) {
        Loops::BesideRoot
    } else {
        Loops::Some
    }
}

fn names(code: &Opcode, name: &str) -> bool {
    match code {
        Opcode::FetchEnv(fetched) => **fetched == *name,
        Opcode::FetchFast(path) => {
            matches!(path.get(1), Some(FetchFastTarget::String(fetched)) if **fetched == *name)
        }
        _ => false,
    }
}

/// An upper bound for the nesting of brackets: it counts brackets in texts too.
fn nesting(text: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

/// Evaluates programs, one after another.
#[derive(Debug)]
pub(super) struct Machine {
    vm: VM,
    /// The deadline, which loops check.
    clock: Variable,
}

impl Machine {
    /// A machine whose loops fail at the deadline.
    pub(super) fn new(deadline: Option<Instant>) -> Self {
        Self {
            vm: VM::new(),
            clock: clock(deadline),
        }
    }

    /// Evaluates an expression.
    pub(super) fn value(&mut self, program: &Program, scope: &Scope) -> Result<Variable, Fault> {
        let value = self.run(program, scope)?;
        measure(&value).map_err(Fault::TooMuch)?;
        Ok(value)
    }

    /// Evaluates a condition. False if the expression fails or its value is not true.
    pub(super) fn is_so(&mut self, program: &Program, scope: &Scope) -> bool {
        matches!(self.run(program, scope), Ok(Variable::Bool(true)))
    }

    fn run(&mut self, program: &Program, scope: &Scope) -> Result<Variable, Fault> {
        let has_clock = match program.loops {
            Loops::None => false,
            // Reading `$root` would rebuild it every time, with the clock in it.
            Loops::BesideRoot => !matches!(scope.base(), Variable::Object(_)),
            Loops::Some => true,
        };
        if !has_clock {
            return self.run_in(program, scope);
        }
        let mut scope = scope.clone();
        scope.set_local(Symbol::from_static(CLOCK), self.clock.clone());
        self.run_in(program, &scope)
    }

    fn run_in(&mut self, program: &Program, scope: &Scope) -> Result<Variable, Fault> {
        // A panic leaves behind the machine's stack, which is discarded with the machine, and values that are no longer borrowed.
        match catch_unwind(AssertUnwindSafe(|| self.vm.run(&program.code, scope))) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(bounds::fault_of(&error.to_string())),
            Err(_) => {
                self.vm = VM::new();
                Err(Fault::Panicked)
            }
        }
    }
}
