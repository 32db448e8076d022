//! Black-box tests: the built `forebay`, real Node and Bun workers, and a fake worker that misbehaves.

mod architecture;
mod bodies;
mod clients;
mod crashes;
mod deadlines;
mod faulty_workers;
mod framing;
mod front;
mod handlers;
mod lifecycle;
mod limits;
mod output;
mod queue;
mod shutdown;
mod support;
