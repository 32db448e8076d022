//! For black-box tests: starts the built `forebay` in a folder of its own, speaks to it byte by byte, puts load on it, looks at its
//! processes, and gives it a real PostgreSQL. Nothing here knows the server's code; it sees what a user sees. Every wait is for a
//! condition, with a generous limit, and a limit that passes is a panic that says what was waited for.

mod binary;
mod client;
mod curl;
mod document;
mod folder;
pub mod http_target;
mod load;
mod port;
pub mod postgres;
mod process;
mod response;
mod server;
pub mod sys;
pub mod techempower;
mod wait;

pub use self::{
    binary::{bun, command, node, program, python},
    client::Client,
    curl::curl,
    document::blocks,
    folder::Folder,
    load::{Load, Report},
    port::free_port,
    postgres::Postgres,
    process::Process,
    response::Response,
    server::{Server, Setup},
    wait::{PATIENCE, wait_for, wait_until, watch},
};
