//! The cost of one router lookup: `cargo run --release -p forebay-router --example router_cost`.
//!
//! Each path is looked up 2 million times in each of 5 rounds after a warm-up round; the fastest and the slowest round are printed.

use std::hint::black_box;
use std::time::Instant;

use forebay_router::{Router, Rule};

const LOOKUPS: u32 = 2_000_000;

#[allow(clippy::print_stdout, reason = "the program's output")]
fn main() {
    let paths = [
        "/local",
        "/helloworld",
        "/bun/helloworld",
        "/echo",
        "/slow",
        "/spin",
        "/crash",
        "/stream",
        "/static/*",
        "/users/:id",
        "/users/:id/posts/:post",
    ];
    let rules = paths.iter().map(|path| Rule {
        methods: Vec::new(),
        host: None,
        path: (*path).to_owned(),
        target: (),
    });
    let router = Router::compile(rules.collect()).expect("the rules of this program are valid");
    for path in [
        "/local",
        "/bun/helloworld",
        "/users/123",
        "/users/123/posts/456",
        "/users/a%20b",
        "/static/css/site.css",
        "/absent",
    ] {
        let round = |_| {
            let start = Instant::now();
            for _ in 0..LOOKUPS {
                black_box(router.find(black_box("GET"), black_box("127.0.0.1:8080"), black_box(path)));
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(LOOKUPS)
        };
        round(0);
        let rounds: Vec<f64> = (0..5).map(round).collect();
        let fastest = rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let slowest = rounds.iter().copied().fold(0.0, f64::max);
        println!("{path:24} {fastest:6.1} to {slowest:6.1} ns");
    }
}
