//! Black-box tests: the built `forebay`, real Node and Bun workers, and a fake worker that misbehaves.

mod architecture;
mod crashes;
mod deadlines;
mod faulty_workers;
mod framing;
mod front;
mod lifecycle;
mod limits;
mod queue;
mod shutdown;
mod support;
