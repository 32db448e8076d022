//! The addon of the npm package `forebay`, loaded by Node and Bun workers as `dist/forebay.node`.
//!
//! It gives JavaScript the two things it cannot do itself with the shared page of `protocol/PROTOCOL.md`, section 6:
//!
//! - `mapPage(fd)` maps the page and returns it as an `ArrayBuffer`, so that `Atomics` on an `Int32Array`
//!   over it reach the server's memory;
//! - `ring(fd)` writes the eight bytes of the number 1 to the doorbell, without the event loop.
//!
//! The few Node-API functions it needs are declared by hand in [`sys`]: their binary interface is stable
//! (<https://nodejs.org/api/n-api.html>), version 1 of it suffices.

mod sys;
