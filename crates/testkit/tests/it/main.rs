//! Black-box tests: the built `forebay`, real Node and Bun workers, and a fake worker that misbehaves.

mod admin;
mod architecture;
mod control;
mod crashes;
mod deadlines;
mod faulty_workers;
mod framing;
mod front;
mod lifecycle;
mod limits;
mod logs;
mod queue;
mod reload;
mod shutdown;
mod support;
