//! Tests of decision graphs.

mod any;
mod bounds;
mod checks;
mod documents;
mod expressions;
mod host;
mod runs;
mod switches;
mod tables;
