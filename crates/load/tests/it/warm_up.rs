//! Warm-up ends when the server has stopped changing, and says when it has not.

use std::time::Duration;

use forebay_load::{
    Session,
    plan::{Load, Pace},
    search::{WarmUp, WarmedUp, warm_up},
};

use crate::rig::{FOREVER, alone, closed, failures, millis, plan, server};

const LEAST: Duration = Duration::from_millis(500);

/// Warms a server up under a load, and measures it for a moment.
fn warmed(path: &str, load: Load, how: WarmUp) -> WarmedUp {
    let server = server();
    let mut session = Session::start(plan(server.address(), path)).unwrap();
    let warm = warm_up(&mut session, load, how, &mut |_| {});
    let measured = session.measure(load, millis(10), &mut |_| {});
    let between = session.between().total.answers;
    let after = session.finish();
    let answered = server.stop().total.answered;
    assert_eq!(
        warm.requests + between + measured.total.answers + after.total.answers,
        answered,
        "what was warmed up with is counted once, and apart: {:?}",
        failures(&after)
    );
    warm
}

#[test]
fn it_ends_soon_with_a_server_that_does_not_change() {
    let _floor = alone();
    let how = WarmUp::UntilSteady {
        least: LEAST,
        most: FOREVER,
    };
    let warm = warmed("/delay/1", closed(4), how);
    assert_eq!(warm.steady, Some(true));
    assert!(
        warm.seconds >= LEAST.as_secs_f64() && warm.seconds < FOREVER.as_secs_f64(),
        "{warm:?}"
    );
}

#[test]
fn it_ends_late_and_says_so_with_a_server_that_keeps_changing() {
    let _floor = alone();
    let most = Duration::from_millis(1500);
    let how = WarmUp::UntilSteady { least: LEAST, most };
    // More than one connection can carry, so that each request waits longer than the one before.
    let beyond = Load {
        connections: 1,
        pace: Pace::Open { per_second: 3000.0 },
    };
    let warm = warmed("/delay/1", beyond, how);
    assert_eq!(warm.steady, Some(false), "{warm:?}");
    assert!(warm.seconds >= most.as_secs_f64() * 0.99, "{warm:?}");
}

#[test]
fn a_fixed_time_is_kept_and_nothing_is_said_about_the_server() {
    let _floor = alone();
    let warm = warmed("/", closed(2), WarmUp::For(Duration::from_millis(100)));
    assert_eq!(warm.steady, None);
    assert!(warm.seconds >= 0.099 && warm.requests > 0, "{warm:?}");
    assert_eq!(warmed("/", closed(2), WarmUp::NONE), WarmedUp::default());
}
