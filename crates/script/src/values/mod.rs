//! Engine values for code that handles many of them: JSON, HTML, rows. The values of `rquickjs` also hold a reference to their context, and
//! counting that for each value costs more than most of the work here.

mod sys;

pub(crate) use sys::{Class, HeldValue, Kind, Name, Names};
