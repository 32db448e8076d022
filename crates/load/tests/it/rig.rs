//! Shared helpers of the tests: plans, loads, and runs from start to end.

use std::{
    cell::Cell,
    net::SocketAddr,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

use forebay_load::{
    Plan, Session,
    engine::{Stretch, Until},
    failure::Class,
    plan::{Engine, Lane, Load, Pace},
    request::{Parts, Requests},
};

use forebay_testkit::http_target::Server;

use crate::io_uring::is_granted;

/// Longer than any run of a test.
pub(crate) const FOREVER: Duration = Duration::from_mins(1);

pub(crate) fn server() -> Server {
    server_with(1)
}

pub(crate) fn server_with(threads: usize) -> Server {
    Server::start(threads)
}

pub(crate) fn parts(path: &str) -> Parts {
    Parts {
        method: "GET".into(),
        path_and_query: path.into(),
        fields: vec![("host".into(), "localhost".into())],
        body: Vec::new(),
        keep_alive: true,
        version: forebay_load::request::Version::Http11,
    }
}

pub(crate) fn lane(address: SocketAddr, parts: &Parts) -> Lane {
    Lane::new(address, Requests::Same(parts.message().unwrap()))
}

thread_local! {
    static ENGINE: Cell<Engine> = const { Cell::new(Engine::Auto) };
}

/// Runs a test whose plans have this engine.
pub(crate) fn with_engine(engine: Engine, test: impl FnOnce()) {
    ENGINE.set(engine);
    test();
    ENGINE.set(Engine::Auto);
}

/// A plan with the engine that is being tested.
pub(crate) fn plan_of(lanes: Vec<Lane>) -> Plan {
    let mut plan = Plan::new(lanes);
    plan.engine = ENGINE.get();
    if plan.engine == Engine::Auto && !plan.lanes.is_empty() {
        let mut tried = plan.clone();
        tried.engine = Engine::IoUring;
        is_granted(tried.settle_engine(closed(1)));
    }
    plan
}

/// A plan for one path, with timeouts longer than any test.
pub(crate) fn plan(address: SocketAddr, path: &str) -> Plan {
    let mut plan = plan_of(vec![lane(address, &parts(path))]);
    plan.timeout = FOREVER;
    plan
}

pub(crate) fn closed(connections: usize) -> Load {
    Load {
        connections,
        pace: Pace::Closed,
    }
}

pub(crate) fn requests(requests: u64) -> Until {
    Until {
        requests: Some(requests),
        ..Until::passed(FOREVER)
    }
}

pub(crate) fn millis(ms: u64) -> Until {
    Until::passed(Duration::from_millis(ms))
}

/// Held exclusively by tests that measure time; the others share it.
static FLOOR: RwLock<()> = RwLock::new(());

/// Waits until no other test makes load, and keeps the others waiting.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    FLOOR.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits while a test needs the machine for itself.
pub(crate) fn beside_others() -> RwLockReadGuard<'static, ()> {
    FLOOR.read().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a plan once; returns the measurement, late responses included.
pub(crate) fn run(plan: Plan, load: Load, until: Until) -> Stretch {
    let _floor = beside_others();
    measure(plan, load, until)
}

/// The same for a test that is [`alone`].
pub(crate) fn measure(plan: Plan, load: Load, until: Until) -> Stretch {
    plan.check(load.connections.max(1), false).unwrap();
    let mut session = Session::start(plan).unwrap();
    let mut measured = session.measure(load, until, &mut |_| {});
    measured.absorb(&session.finish());
    measured
}

/// Failures by class.
pub(crate) fn failures(stretch: &Stretch) -> Vec<(Class, u64)> {
    stretch.total.failures.iter().collect()
}

/// The example of a class; every class that was counted has one.
pub(crate) fn example(stretch: &Stretch, class: Class) -> &str {
    let found = stretch.examples.iter().find(|(known, _)| *known == class);
    found.map_or_else(
        || panic!("{class:?} has no example: {:?}", stretch.examples),
        |(_, text)| text,
    )
}

/// Tries several times what a busy machine may spoil once; a real defect fails every time.
pub(crate) fn at_some_time(attempt: impl FnMut() -> Result<(), String>) {
    in_one_of(8, attempt);
}

/// As [`at_some_time`], with a number of attempts.
pub(crate) fn in_one_of(attempts: usize, mut attempt: impl FnMut() -> Result<(), String>) {
    let mut spoiled = Vec::new();
    while let Err(what) = attempt() {
        spoiled.push(what);
        assert!(spoiled.len() < attempts, "never: {spoiled:#?}");
    }
}
