//! What every test needs: plans, loads, and runs from start to end.

use std::{
    cell::Cell,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

use forebay_load::{
    Plan, Session,
    engine::{Stretch, Until},
    failure::Class,
    plan::{Engine, Lane, Load, Pace},
    request::{Parts, Requests},
    target::Address,
};

use forebay_testkit::http_target;

use crate::granted::granted;

/// Longer than any run of a test.
pub(crate) const FOREVER: Duration = Duration::from_mins(1);

/// A server to load, with its address as the generator has it.
pub(crate) struct Server {
    inner: http_target::Server,
    address: Address,
}

impl Server {
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn stop(self) -> http_target::Stats {
        self.inner.stop()
    }
}

impl std::ops::Deref for Server {
    type Target = http_target::Server;

    fn deref(&self) -> &http_target::Server {
        &self.inner
    }
}

pub(crate) fn server() -> Server {
    server_with(1)
}

pub(crate) fn server_with(threads: usize) -> Server {
    let inner = http_target::Server::start(threads);
    let address = Address::Tcp(inner.address());
    Server { inner, address }
}

/// A server on a Unix socket.
pub(crate) fn unix_server() -> Server {
    let name = format!("forebay-load-{}.sock", std::process::id());
    let file = std::env::temp_dir().join(name);
    Server {
        inner: http_target::Server::start_unix(&file),
        address: Address::Unix(file),
    }
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

pub(crate) fn lane(address: &Address, parts: &Parts) -> Lane {
    Lane::new(address.clone(), Requests::Same(parts.message().unwrap()))
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
        granted(tried.settle_engine(closed(1)));
    }
    plan
}

/// A plan for one path, with time-outs beyond any test's patience.
pub(crate) fn plan(address: &Address, path: &str) -> Plan {
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

/// Kept by tests that look at the time for as long as they do; the others may go on beside each other.
static FLOOR: RwLock<()> = RwLock::new(());

/// Waits until no other test makes load, and keeps the others waiting.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    FLOOR.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits while a test needs the machine for itself.
pub(crate) fn beside_others() -> RwLockReadGuard<'static, ()> {
    FLOOR.read().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a plan once: what was measured, with what came in afterwards.
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

/// What failed, by class.
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

/// Tries several times what a busy machine may spoil once; what is wrong for good stays wrong.
pub(crate) fn at_some_time(attempt: impl FnMut() -> Result<(), String>) {
    in_one_of(8, attempt);
}

/// The same, so often.
pub(crate) fn in_one_of(attempts: usize, mut attempt: impl FnMut() -> Result<(), String>) {
    let mut spoiled = Vec::new();
    while let Err(what) = attempt() {
        spoiled.push(what);
        assert!(spoiled.len() < attempts, "never: {spoiled:#?}");
    }
}
