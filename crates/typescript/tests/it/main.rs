//! The eraser from outside.

mod handler;
mod strip;
mod unawaited;
