//! Measured latencies are those that the server is known to have.

use forebay_load::plan::{Load, Pace};

use crate::rig::{alone, at_some_time, closed, failures, in_one_of, measure, plan, requests, server};

/// Largest difference between a latency and the server's time, as a share of the latter: transmission and wake-up.
const WAY_MAX: f64 = 0.02;
/// The same in nanoseconds, for delays of which the share is less: two wake-ups take as long however short the delay is.
const WAY_NS_MAX: f64 = 100_000.0;

/// Loads a server whose answers take so long, and compares percentiles with what it has recorded itself.
fn compare(p50_ms: u32, load: Load, count: u64) -> Result<(), String> {
    let server = server();
    let path = format!("/delay/dist?p50={p50_ms}&p99={}", 4 * p50_ms);
    let mut plan = plan(server.address(), &path);
    plan.settle_engine(load).unwrap();
    let measured = measure(plan, load, requests(count));
    assert_eq!(failures(&measured), []);
    let truth = server.stop();
    assert_eq!(truth.service_ns.len(), count);
    for quantile in [0.5, 0.9, 0.99] {
        let found = measured.total.latency.value_at_quantile(quantile) as f64;
        let ready = truth.ready_ns.value_at_quantile(quantile) as f64;
        assert!(
            found >= ready * 0.998,
            "nothing is faster than the server: {found} at {quantile}, {ready}"
        );
        let expected = truth.service_ns.value_at_quantile(quantile) as f64;
        if found > expected + (expected * WAY_MAX).max(WAY_NS_MAX) {
            return Err(format!(
                "{p50_ms} ms: {found} at {quantile}, {expected} at the server"
            ));
        }
    }
    Ok(())
}

/// The delays are so long that a late wake-up on a busy machine does not matter.
#[test]
fn percentiles_are_those_of_the_delays_that_were_injected() {
    let _floor = alone();
    let open = Load {
        connections: 300,
        pace: Pace::Open { per_second: 1000.0 },
    };
    for load in [closed(250), open] {
        at_some_time(|| compare(100, load, 2000));
    }
}

/// The shorter the delays, the larger the share of transmission; so few requests are in flight at once, and a busy machine needs more than
/// one attempt.
#[test]
fn percentiles_of_short_delays_are_theirs_too() {
    let _floor = alone();
    for (p50_ms, connections, count) in [(20, 40, 1000), (5, 10, 1000), (1, 2, 600)] {
        in_one_of(24, || compare(p50_ms, closed(connections), count));
    }
}
