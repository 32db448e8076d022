//! Expressions that were compiled, and what runs them.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Instant,
};

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
    value::{Excess, NODES, measure},
};

/// Longest expression.
const TEXT_MAX_BYTES: usize = 16 << 10;
/// Brackets within one another in an expression.
const NESTED_MAX: usize = 64;

/// An expression longer than this is compiled on a stack of its own: the compiler goes down a chain of operators as deep as it is long.
const SHALLOW_MAX_BYTES: usize = 256;
/// How much of that there is for each byte of the text; little of it is ever touched.
const STACK_BYTES: usize = 4 << 10;

/// What the value before it, or the one that is asked about, is known by.
pub(super) const DOLLAR: &str = "$";

/// An expression, compiled.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) text: Arc<str>,
    pub(super) code: Arc<[Opcode]>,
    /// Whether it may look at `$`.
    pub(super) sees_dollar: bool,
    /// Whether it may look at `$nodes`.
    pub(super) sees_nodes: bool,
    loops: Loops,
}

/// Whether something in an expression goes over a list.
#[derive(Clone, Copy, Debug)]
enum Loops {
    None,
    /// It looks at `$root` too, which is all that it sees as one value.
    BesideRoot,
    Some,
}

/// Why an expression has no value.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Fault {
    /// It cannot be evaluated with what it was given.
    #[error("{0}")]
    Failed(String),
    /// It makes a list of too many numbers.
    #[error("it goes over a range of more than {} numbers", super::ITEMS_MAX)]
    Range,
    /// Its loops go over too much.
    #[error("loops within one another go over more than {} items", bounds::LOOPED_MAX)]
    Loops,
    /// It gives a name to too long a text, or too long a list.
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
    /// It still went over a list when the time of the run was over.
    #[error("it was not done when the time of the run was over")]
    Late,
    /// Its value is more than one may be.
    #[error("{0}")]
    TooMuch(Excess),
    /// What evaluates it was not prepared for this.
    #[error("it asks for something that cannot be evaluated")]
    Panicked,
}

/// Compiles expressions, each text once.
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

    /// An expression that has a value.
    pub(super) fn standard(&mut self, text: &str) -> Result<Program, String> {
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

    /// What is said of `$`: true or false.
    pub(super) fn unary(&mut self, text: &str) -> Result<Program, String> {
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
    ) -> Result<Program, String> {
        if text.len() > TEXT_MAX_BYTES {
            return Err(format!("it has {} bytes, at most {TEXT_MAX_BYTES}", text.len()));
        }
        if nesting(text) > NESTED_MAX {
            return Err(format!("more than {NESTED_MAX} brackets are within one another"));
        }
        let isolate = &mut self.isolate;
        let compile = || catch_unwind(AssertUnwindSafe(|| compile(isolate)));
        let compiled = if text.len() > SHALLOW_MAX_BYTES {
            stacker::grow(text.len() * STACK_BYTES, compile)
        } else {
            compile()
        };
        let code = match compiled {
            Ok(Ok(code)) => bounds::guarded(&code)?,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => {
                self.isolate = Isolate::new();
                return Err("the compiler cannot read it".to_owned());
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

/// How many brackets are within one another, at least: those in texts count too.
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

/// Runs programs, one after another.
#[derive(Debug)]
pub(super) struct Machine {
    vm: VM,
    /// What loops look at.
    clock: Variable,
}

impl Machine {
    /// Loops that turn at the deadline fail.
    pub(super) fn new(deadline: Option<Instant>) -> Self {
        Self {
            vm: VM::new(),
            clock: clock(deadline),
        }
    }

    /// The value of an expression.
    pub(super) fn value(&mut self, program: &Program, scope: &Scope) -> Result<Variable, Fault> {
        let value = self.run(program, scope)?;
        measure(&value).map_err(Fault::TooMuch)?;
        Ok(value)
    }

    /// Whether it is so: not, where the expression has no value or another than true.
    pub(super) fn is_so(&mut self, program: &Program, scope: &Scope) -> bool {
        matches!(self.run(program, scope), Ok(Variable::Bool(true)))
    }

    fn run(&mut self, program: &Program, scope: &Scope) -> Result<Variable, Fault> {
        let has_clock = match program.loops {
            Loops::None => false,
            // `$root` would be made anew each time it is looked at, with the clock in it.
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
        // What a panic leaves behind is the machine's stack, which is given up with it, and values, none of which is borrowed any longer.
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
