//! Latencies are those that the server knows to be true.

use forebay_load::plan::{Arrivals, Load, Pace};

use crate::rig::{alone, at_some_time, closed, failures, measure, plan, requests, server};

/// The delays are so long that waking up late on a busy machine is no matter of per cents.
#[test]
fn percentiles_are_those_of_the_delays_that_were_injected() {
    let _floor = alone();
    let open = Load {
        connections: 300,
        pace: Pace::Open {
            per_second: 1000.0,
            arrivals: Arrivals::Poisson,
        },
    };
    for load in [closed(250), open] {
        at_some_time(|| {
            let server = server();
            let measured = measure(
                plan(server.address(), "/delay/dist?p50=100&p99=400"),
                load,
                requests(2000),
            );
            assert_eq!(failures(&measured), []);
            let truth = server.stop().service_ns;
            assert_eq!(truth.len(), 2000);
            for quantile in [0.5, 0.9, 0.99] {
                let found = measured.total.latency.value_at_quantile(quantile) as f64;
                let expected = truth.value_at_quantile(quantile) as f64;
                assert!(
                    found >= expected * 0.998,
                    "nothing is faster than the server: {found} at {quantile}, {expected}"
                );
                if found > expected * 1.02 {
                    return Err(format!("{found} at {quantile}, {expected} at the server"));
                }
            }
            Ok(())
        });
    }
}
