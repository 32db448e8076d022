//! Loads a URL for some seconds and prints what it costs: `probe URL CONNECTIONS SECONDS [THREADS] [PIPELINE]`.
use std::time::Duration;

use forebay_load::{
    Plan, Session, Url,
    engine::Until,
    plan::{Lane, Load, Pace},
    request::{Parts, Requests},
    target::{Address, Family},
};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| arguments.get(at).map_or(default, |text| text.parse().unwrap());
    let url = Url::parse(&arguments[0]).unwrap();
    let lane = Lane {
        address: Address::Tcp(url.resolve(Family::Any).unwrap()),
        requests: Requests::Same(Parts::get(&url).message().unwrap()),
    };
    let mut plan = Plan::new(vec![lane]);
    plan.threads = number(3, 1);
    plan.pipeline = number(4, 1);
    plan.keep_alive = number(5, 1) == 1;
    plan.check(number(1, 64), false).unwrap();
    let mut session = Session::start(plan).unwrap();
    let load = Load {
        connections: number(1, 64),
        pace: Pace::Closed,
    };
    let until = Until {
        duration: Some(Duration::from_secs(number(2, 3) as u64)),
        ..Until::default()
    };
    let stretch = session.measure(load, until, &mut |_| {});
    let after = session.finish();
    println!(
        "{:.0}/s p50 {} ns p99 {} ns, {:.2} us CPU a request, {} + {} answers, {:?} {:?} {:?}",
        stretch.per_second(),
        stretch.total.latency.value_at_quantile(0.5),
        stretch.total.latency.value_at_quantile(0.99),
        stretch.cpu_ns as f64 / 1e3 / stretch.total.answers as f64,
        stretch.total.answers,
        after.total.answers,
        stretch.total.statuses,
        stretch.total.failures.iter().collect::<Vec<_>>(),
        stretch.examples,
    );
}
