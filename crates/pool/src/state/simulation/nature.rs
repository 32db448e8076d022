//! Initial choices of a seed: the kind of world, the pool's options, and the behaviour of each job.

use std::time::Duration;

use super::{
    clients::{Kind, Script},
    dice::Dice,
};
use crate::{Options, Program, Recycle};

/// The kind of world.
#[derive(Clone, Copy, Debug)]
pub(super) struct Environment {
    /// Whether workers claim their jobs.
    pub(super) claims: bool,
    /// Whether workers, their starts and the pool's size change at random.
    pub(super) chaos: bool,
    /// Jobs per thousand whose handlers misbehave.
    pub(super) misbehaving: u64,
    /// Jobs per thousand of one of a few clients that stay with their workers.
    pub(super) of_clients: u64,
    /// Mean microseconds between jobs; chaos switches between them.
    pub(super) gaps_us: [u64; 6],
}

pub(super) fn options(dice: &mut Dice, nature: Environment) -> Options {
    let min = dice.size(0, 3);
    let mut recycle = Recycle::default();
    if nature.chaos && dice.chance(500) {
        recycle.jobs = dice.between(5, 200);
        recycle.age = [Duration::ZERO, dice.micros(1_000_000, 5_000_000)][dice.size(0, 1)];
        recycle.rss_bytes = [0, 100][dice.size(0, 1)];
    }
    let program = Program {
        argv: vec!["worker".into()],
        env: Vec::new(),
        cwd: "/".into(),
        protocol: crate::Protocol::Framed,
        page: nature.claims,
        handler: None,
        start: None,
    };
    let workers_max = (min + dice.size(0, 3)).max(1);
    let concurrency = if dice.chance(700) { 1 } else { dice.size(2, 5) };
    Options {
        name: "simulated".into(),
        program,
        workers_min: min,
        workers_max,
        concurrency,
        concurrency_max: concurrency,
        connections_max: usize::MAX,
        queue_max: dice.size(1, 60),
        queue_bytes_max: dice.size(250, 8_000),
        start_timeout: Duration::from_millis(500),
        kill_grace: [Duration::from_millis(50), Duration::from_millis(300)][dice.size(0, 1)],
        idle_retire: dice.micros(50_000, 5_000_000),
        recycle,
        message_bytes_max: 1 << 20,
        call_timeout: Duration::from_secs(1),
        confinement: None,
        calls: None,
        remote: false,
        files: false,
    }
}

pub(super) fn script(dice: &mut Dice, nature: Environment) -> Script {
    let work = match dice.between(0, 9) {
        0..=6 => dice.micros(10, 500),
        7 | 8 => dice.micros(500, 8_000),
        _ => dice.micros(8_000, 100_000),
    };
    let kind = if dice.chance(nature.misbehaving) {
        match dice.between(0, 12) {
            0..=2 => Kind::Crash,
            3 => Kind::AnswerAndCrash,
            4 => Kind::Garbage,
            5 | 6 => Kind::Spin,
            7 => Kind::Deaf,
            8 | 9 => Kind::Reset,
            10 => Kind::Polite,
            _ => Kind::Stream {
                chunks: dice.between(0, 60) as u32,
                resets: true,
            },
        }
    } else {
        match dice.between(0, 19) {
            0 => Kind::Fault,
            1 => Kind::Stream {
                chunks: dice.between(0, 60) as u32,
                resets: false,
            },
            _ => Kind::Answer,
        }
    };
    Script { kind, work }
}
