//! `forebay bench`: what each way of answering costs. [`ladder`] loads a server of this version and its peers over HTTP; [`pool`] measures
//! pools of workers without it.

#![forbid(unsafe_code)]

pub mod ladder;
pub mod pool;
mod process;

pub use process::end_group;
