//! The addon of the npm package `forebay`, loaded by Node and Bun as `dist/forebay.node`; and, as the same file, the native library of the Python
//! package, which calls it by [`ctypes`](c).
//!
//! It provides what JavaScript cannot do itself:
//!
//! - `mapPage(fd)` maps the page of `protocol/PROTOCOL.md`, section 6, and returns it as an `ArrayBuffer`, so that `Atomics`
//!   on an `Int32Array` over it reach the server's memory; `ring(fd)` writes the eight bytes of the number 1 to the doorbell,
//!   without the event loop; `createPage()` and `viewPage(fd)` are the same page from the other side;
//! - `dieWithParent()` makes the kernel end this process together with the one that started it;
//! - `waitReadable(fd, ms)` waits until there is something to read, for programs that block while they wait for an answer on a pipe;
//! - `socketPair()` makes two connected sockets, one for the program itself and one for a worker;
//! - `openStore(...)` opens a store and returns its operations, each of them one call.
//!
//! Arguments of the store's operations are passed in `area`, memory of this addon that JavaScript sees as an `ArrayBuffer`:
//! JavaScript writes a path there and passes where it ends, which costs less than passing its subscripts one by one.

mod c;
mod napi;
mod page;
mod parent;
mod pipe;
mod store;

use napi::Export;
use store::Thread;

/// The functions that the module exports, in addition to `area`.
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
