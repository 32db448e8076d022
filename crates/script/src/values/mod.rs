//! Values of the engine for those who handle many of them: JSON, HTML, rows. What `rquickjs` gives holds its context too, and to count that for each value takes
//! longer than most of what is done with it here.

mod sys;

pub(crate) use sys::{Class, HeldValue, Kind, Name, Names};
