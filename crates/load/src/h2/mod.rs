//! HTTP/2 as a client speaks it (RFC 9113), without sockets: octets that came go in, answers and octets to be sent come out. Bodies are
//! counted and, where asked for, kept; nothing else of an answer stays in memory.

mod client;
mod fields;
mod frame;
mod hpack;
mod huffman;
mod request;

pub(crate) use self::{
    client::{Client, Event},
    request::{Coded, Coder},
};
