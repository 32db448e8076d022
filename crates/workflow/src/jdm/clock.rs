//! The time by which a run has to be over, as the loops of expressions see it: a value whose type is asked for at the end of each turn.

use std::{any::Any, fmt, rc::Rc, time::Instant};

use serde_json::Value;
use zen_expression::{Variable, variable::DynamicVariable};

/// What loops know it by. No expression can write this name.
pub(super) const CLOCK: &str = "\u{1}clock";
/// Its type when the time is over.
pub(super) const LATE: &str = "late";

#[derive(Clone, Copy, Debug)]
struct Clock {
    deadline: Option<Instant>,
}

/// Without a deadline it is never late.
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
