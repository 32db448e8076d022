//! Ten thousand connections at once.

use std::sync::atomic::Ordering;

use forebay_load::{
    Session,
    failure::Class,
    plan::{Load, Pace},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::rig::{beside_others, failures, millis, plan, server_with};

const WANTED: usize = 10_000;
/// Other descriptors of the process.
const SPARE: usize = 500;

/// As many connections as the limit of open files allows, with both ends in this process.
fn connections() -> usize {
    let needed = (2 * WANTED + SPARE) as u64;
    let limits = getrlimit(Resource::Nofile);
    if limits.maximum.is_some_and(|maximum| maximum < needed) {
        // Only the administrator may do this.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(needed),
                maximum: Some(needed),
            },
        );
    }
    let maximum = getrlimit(Resource::Nofile).maximum.unwrap_or(needed);
    WANTED.min((maximum as usize).saturating_sub(SPARE) / 2)
}

#[test]
fn ten_thousand_connections_are_held_and_used() {
    let _floor = beside_others();
    let connections = connections();
    let server = server_with(1);
    let mut plan = plan(server.address(), "/");
    plan.threads = 2;
    plan.connect_timeout = std::time::Duration::from_secs(30);
    plan.check(connections, false).unwrap();
    let mut session = Session::start(plan).unwrap();
    let stopper = session.stopper();
    let load = Load {
        connections,
        pace: Pace::Open {
            per_second: 2.0 * connections as f64,
        },
    };
    let mut measured = session.measure(load, millis(60_000), &mut |stretch| {
        let all = server.stats().open == connections as u64 && stretch.total.answers >= connections as u64;
        stopper.store(all, Ordering::Relaxed);
    });
    assert_eq!(server.stats().open, connections as u64, "all at once");
    measured.absorb(&session.finish());
    // If the run was stopped early, requests may just have been due on connections that waited for a response.
    let failed = failures(&measured);
    assert!(
        failed.iter().all(|(class, _)| *class == Class::Unanswered),
        "{:?}",
        measured.examples
    );
    let stats = server.stop();
    assert_eq!(stats.accepted, connections as u64);
    assert_eq!(measured.total.answers, stats.total.answered);
}
