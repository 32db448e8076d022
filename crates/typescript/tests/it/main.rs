//! The eraser from outside.

mod strip;
mod unawaited;
