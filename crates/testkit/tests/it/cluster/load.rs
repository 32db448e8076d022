//! Several hosts and front ends under load.

use forebay_testkit::{Load, Server, wait_until};

use super::{Nats, front, host, wait_for_hosts};
use crate::{
    support::{TOOLBOX, noted},
    upgrade::upgrade,
};

/// Answers with the request's body, and notes each request.
const TURNS: &str = r"
import { appendFileSync } from 'node:fs';
import { router } from 'forebay';

export default router().post('/', async (request) => {
  const body = await request.bytes();
  appendFileSync('ran', '.\n');
  return body;
});
";

fn ran(host: &Server) -> usize {
    noted(host).len()
}

#[test]
fn hosts_that_drain_and_join_under_load_cost_no_request() {
    let nats = Nats::start();
    let workers = "workers = { min = 2, max = 2 }";
    let fronts = [(); 2].map(|()| front(&nats, TURNS, workers));
    let mut leaves = host(&nats, TURNS, workers);
    let stays = host(&nats, TURNS, workers);
    for front in &fronts {
        wait_for_hosts(front, 2);
    }
    let loads: Vec<_> = fronts
        .iter()
        .map(|front| Load::on(front, "/").connections(8))
        .collect();
    let running: Vec<_> = loads.iter().map(Load::start).collect();
    wait_until("both hosts work", || ran(&leaves) > 100 && ran(&stays) > 100);
    leaves.terminate();
    assert!(leaves.wait().success());
    let (left, before) = (ran(&leaves), ran(&stays));
    wait_until("the other host goes on", || ran(&stays) > before + 100);
    let joins = host(&nats, TURNS, workers);
    wait_until("a new host works", || ran(&joins) > 100);
    for load in &loads {
        load.end();
    }
    let mut answered = 0;
    for report in running {
        let report = report.join().expect("the load does not panic");
        report.assert_each_answered(&[200]);
        answered += report.with_status(200);
    }
    assert_eq!(left, ran(&leaves), "a host that has left runs nothing");
    assert_eq!(
        answered,
        left + ran(&stays) + ran(&joins),
        "each request ran once"
    );
}

#[test]
fn reloads_and_upgrades_of_front_ends_and_hosts_cost_no_request() {
    let nats = Nats::start();
    let workers = "workers = { min = 2, max = 2 }";
    let front = front(&nats, TURNS, workers);
    let host = host(&nats, TURNS, workers);
    wait_for_hosts(&front, 1);
    let load = Load::on(&front, "/").connections(8);
    let running = load.start();
    let more = || {
        let before = ran(&host);
        wait_until("more load", || ran(&host) > before + 100);
    };
    more();
    for reloaded in [&front, &host] {
        let output = reloaded.command(&["reload"]);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        more();
    }
    let _host = upgrade(&host);
    more();
    let _front = upgrade(&front);
    more();
    load.end();
    let report = running.join().expect("the load does not panic");
    report.assert_each_answered(&[200]);
}

#[test]
fn more_requests_than_all_hosts_take_wait_at_their_front_ends() {
    let nats = Nats::start();
    let one_worker = "workers = { min = 1, max = 1 }";
    let fronts = [(); 2].map(|()| front(&nats, TOOLBOX, one_worker));
    let _hosts = [(); 2].map(|()| host(&nats, TOOLBOX, one_worker));
    for front in &fronts {
        wait_for_hosts(front, 2);
    }
    let loads = fronts
        .each_ref()
        .map(|front| Load::on(front, "/block/2").connections(12).requests(150));
    for running in loads.each_ref().map(Load::start) {
        let report = running.join().expect("the load does not panic");
        report.assert_each_answered(&[200]);
    }
}
