//! The addon of the npm package `forebay`, loaded by Node and Bun as `dist/forebay.node`.
//!
//! It gives JavaScript what it cannot do itself:
//!
//! - `mapPage(fd)` maps the page of `protocol/PROTOCOL.md`, section 6, and returns it as an `ArrayBuffer`, so that `Atomics`
//!   on an `Int32Array` over it reach the server's memory; `ring(fd)` writes the eight bytes of the number 1 to the doorbell,
//!   without the event loop; `createPage()` and `viewPage(fd)` are the same page from the other side;
//! - `dieWithParent()` has the kernel end this process together with the one that has started it;
//! - `waitReadable(fd, ms)` waits until there is something to read, for programs that ask the server over a pipe and wait for the answer;
//! - `socketPair()` is two connected sockets, of which a program keeps one and gives the other to a worker;
//! - `openStore(...)` opens a store and returns its operations, each of them one call.
//!
//! Arguments of the store's operations lie in `area`, memory of this addon that JavaScript sees as an `ArrayBuffer`: JavaScript
//! writes a path there and passes where it ends, which costs less than passing its subscripts one by one.

mod napi;
mod page;
mod parent;
mod pipe;
mod store;

use napi::Export;
use store::Thread;

/// What the module exports, beside `area`.
const FUNCTIONS: &[Export<Thread>] = &[
    (c"mapPage", 1, page::map),
    (c"createPage", 0, page::create),
    (c"viewPage", 1, page::view),
    (c"dieWithParent", 0, parent::die_with_parent),
    (c"ring", 1, page::ring),
    (c"waitReadable", 2, pipe::wait_readable),
    (c"socketPair", 0, pipe::socket_pair),
    (c"openStore", 11, store::open),
];
