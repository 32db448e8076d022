//! Open loads: the rate is kept, and the delays of a slow server are measured in full.

use forebay_load::{
    Session,
    failure::Class,
    plan::{Load, Pace},
};

use crate::rig::{alone, at_some_time, closed, failures, measure, millis, plan, requests, server};

fn open(per_second: f64, connections: usize) -> Load {
    Load {
        connections,
        pace: Pace::Open { per_second },
    }
}

#[test]
fn so_many_requests_take_as_long_as_the_rate_says() {
    let _floor = alone();
    let server = server();
    at_some_time(|| {
        let mut plan = plan(server.address(), "/");
        plan.threads = 2;
        let measured = measure(plan, open(4000.0, 8), requests(2001));
        assert_eq!((measured.total.sent, failures(&measured)), (2001, vec![]));
        let seconds = measured.seconds();
        assert!(seconds >= 0.4995, "{seconds} s: never faster than the rate");
        if seconds > 0.51 {
            Err(format!("{seconds} s"))
        } else {
            Ok(())
        }
    });
}

#[test]
fn what_is_due_and_never_sent_counts_with_the_time_it_has_waited() {
    let _floor = alone();
    let server = server();
    // One connection that carries ten requests a second, and a thousand are due.
    let measured = measure(plan(server.address(), "/delay/100"), open(1000.0, 1), millis(500));
    let total = &measured.total;
    let unsent = total.failures.get(Class::Unanswered);
    assert_eq!(total.sent, total.answers, "what was sent is answered");
    assert!(total.sent <= 8, "{} of one connection", total.sent);
    let due = 1000.0 * measured.seconds();
    assert!(
        ((total.sent + unsent) as f64 - due).abs() <= 0.02 * due + 2.0,
        "{} sent and {unsent} not, of {due}",
        total.sent
    );
    assert_eq!(total.latency.len(), total.answers + unsent);
    let late = total.latency.count_between(250_000_000, u64::MAX) as f64;
    assert!(
        late >= 0.45 * due,
        "{late} of {due} have waited for half of the time"
    );
}

#[test]
fn the_rate_is_kept_over_time() {
    let _floor = alone();
    let server = server();
    at_some_time(|| {
        let mut plan = plan(server.address(), "/");
        plan.threads = 3;
        let measured = measure(plan, open(5000.0, 12), millis(400));
        if !failures(&measured).is_empty() {
            // A request that was due in the last moment may still wait for a connection if the machine stalls just then.
            return Err(format!("{:?}", measured.examples));
        }
        let (sent, due) = (measured.total.sent as f64, 5000.0 * measured.seconds());
        assert!(sent <= due + 3.0, "{sent} of {due} that were due");
        if sent < due * 0.98 {
            return Err(format!("{sent} of {due}"));
        }
        Ok(())
    });
}

#[test]
fn a_rate_beyond_the_server_shows_as_latency_not_as_service_time() {
    let _floor = alone();
    let server = server();
    let measured = measure(plan(server.address(), "/delay/20"), open(500.0, 1), requests(20));
    let (latency, service) = (&measured.total.latency, measured.total.service.as_ref().unwrap());
    // The last request is due after 38 ms, and is answered after 20 times 20 ms.
    assert!(latency.max() >= 350_000_000, "{}", latency.max());
    assert!(service.min() >= 19_900_000 && latency.min() >= 19_900_000);
    assert!(
        service.max() < latency.max(),
        "a request waits before it is sent, and is then served like any other"
    );
    assert!(
        measured.total.lag_max_ns >= 300_000_000,
        "a request that was sent late is known to be"
    );
}

/// Nothing is answered for 200 ms while 1000 requests a second are due: a request that is due t ms before the end of the stall takes
/// at least t ms, whether or not there was a connection for it. Latencies from when a request was written would leave most of them out.
#[test]
fn a_stall_is_seen_by_every_request_that_was_due() {
    let _floor = alone();
    at_some_time(|| stall_under(open(RATE, 16)));
}

const RATE: f64 = 1000.0;

fn stall_under(load: Load) -> Result<(), String> {
    let server = server();
    let mut session = Session::start(plan(server.address(), "/")).unwrap();
    let mut stalled = false;
    let mut measured = session.measure(load, millis(700), &mut |stretch| {
        if !stalled && stretch.total.answers > 100 {
            server.stall(std::time::Duration::from_millis(200));
            stalled = true;
        }
    });
    measured.absorb(&session.finish());
    let stats = server.stop();
    assert_eq!((failures(&measured), stats.stalls), (vec![], 1));
    let stall = stats.stalled_ns as f64;
    for ms in [20.0, 60.0, 100.0, 140.0, 180.0] {
        let at_least = ms * 1e6;
        let expected = RATE * (stall - at_least) / 1e9;
        let found = measured
            .total
            .latency
            .count_between(at_least as u64, u64::MAX / 2) as f64;
        if (found - expected).abs() > 4.0 + 0.05 * expected {
            return Err(format!(
                "{found} requests took {ms} ms or longer, {expected} should have"
            ));
        }
    }
    // Measured from when they were written, at most one request per connection met the stall.
    let service = measured.total.service.as_ref().unwrap();
    let met = service.count_between(20_000_000, u64::MAX / 2);
    if met > load.connections as u64 {
        Err(format!("{met} requests were under way"))
    } else {
        Ok(())
    }
}

#[test]
fn a_closed_load_waits_the_stall_out() {
    let _floor = alone();
    at_some_time(|| {
        let server = server();
        let mut session = Session::start(plan(server.address(), "/delay/1")).unwrap();
        let mut stalled = false;
        let mut measured = session.measure(closed(4), millis(500), &mut |stretch| {
            if !stalled && stretch.total.answers > 0 {
                server.stall(std::time::Duration::from_millis(200));
                stalled = true;
            }
        });
        measured.absorb(&session.finish());
        match measured.total.latency.count_between(150_000_000, u64::MAX / 2) {
            4 => Ok(()),
            other => Err(format!("{other} requests of 4 connections")),
        }
    });
}
