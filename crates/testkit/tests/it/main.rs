//! Black-box tests: the built `forebay`, real Node and Bun workers, and a fake worker that misbehaves.

mod architecture;
mod faulty_workers;
mod framing;
mod front;
mod limits;
mod support;
