//! Black-box tests: the built `forebay`, real Node, Bun and Python workers, and a fake worker that misbehaves.

mod admin;
mod architecture;
mod bodies;
mod clients;
mod conservation;
mod control;
mod crashes;
mod deadlines;
mod faulty_workers;
mod framing;
mod front;
mod handlers;
mod lifecycle;
mod limits;
mod logs;
mod output;
mod python;
mod qoper8;
mod queue;
mod records;
mod reload;
mod shutdown;
mod stdio;
mod store;
mod suite;
mod support;
