//! The eraser from outside.

mod strip;
