//! The router: an immutable table from (method, host, path) to a target, compiled once and swapped whole on reload.
//!
//! # What matches
//!
//! A path is cut at each `/`; segments are compared **percent-decoded**, so `%2F` stays inside its segment and
//! `/caf%C3%A9` is `/café`. A static segment equals itself, `:name` takes one segment that is not empty, and a final `*` or
//! `*name` takes one or more segments of which all may be empty: `/static/*` answers `/static/` and everything below, not
//! `/static`. A slash at the end counts.
//!
//! # Which route wins
//!
//! Of all routes whose host and path match and that accept the method, the first in this order:
//!
//! 1. the more specific host: exact, then `*.` with the longer rest, then any;
//! 2. the more specific path, segment by segment from the left: static, then `:name`, then `*`;
//! 3. the more specific method: named, then (for HEAD) GET, then any.
//!
//! So a route that does not accept the method never hides one that does. Two routes that would tie are refused by [`Router::compile`].
//!
//! # What is refused
//!
//! [`Outcome::BadPath`]: a path that does not start with `/`, a broken percent-encoding, text that is not UTF-8 once decoded, a
//! NUL, and segments `.` or `..` in any encoding. Such segments are refused, not resolved: clients resolve them before they
//! send, and a server, a handler and a proxy that resolve them differently are how files leak.

#![forbid(unsafe_code)]

mod error;
mod host;
mod path;
mod pattern;
mod table;
mod template;

pub use error::RouterError;
pub use path::{decode, put_encoded};
pub use pattern::{Pattern, PatternError, Segment};
pub use table::{Found, Outcome, Params, Router, Rule};
pub use template::{Template, TemplateError};
