//! The deadline of a run, in a form that expressions can test: a value whose type changes when the time is up. Loops check it after every
//! iteration.

use std::{any::Any, fmt, rc::Rc, time::Instant};

use serde_json::Value;
use zen_expression::{Variable, variable::DynamicVariable};

/// The variable that holds the clock. No expression can spell this name.
pub(super) const CLOCK: &str = "\u{1}clock";
/// The type name of the clock after the deadline.
pub(super) const LATE: &str = "late";

#[derive(Clone, Copy, Debug)]
struct Clock {
    deadline: Option<Instant>,
}

/// A clock for a deadline; `None` never expires.
pub(super) fn clock(deadline: Option<Instant>) -> Variable {
    Variable::Dynamic(Rc::new(Clock { deadline }))
}

impl DynamicVariable for Clock {
    fn type_name(&self) -> &'static str {
        let is_late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if is_late { LATE } else { "clock" }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn to_value(&self) -> Value {
        Value::Null
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("clock")
    }
}
