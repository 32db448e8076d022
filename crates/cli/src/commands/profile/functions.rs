//! Which functions took the time, as a table for each process.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
};

use super::report::{Process, Report};

/// Longest name in the table, in characters; files have names as they are.
const NAME_MAX: usize = 120;

/// A function's time.
#[derive(Debug, PartialEq, Eq)]
struct Spent<'p> {
    name: &'p str,
    /// While it was running itself.
    own_us: u64,
    /// While it was running, or something that it had called.
    total_us: u64,
}

pub(super) fn text(report: &Report, heading: &str, top: usize) -> String {
    let mut text = format!("{heading}\n");
    // A String takes everything.
    for process in &report.processes {
        let _ = writeln!(text, "\n{}", process.heading());
        put(&mut text, process, top);
    }
    for unseen in &report.unseen {
        let _ = writeln!(text, "\n{}", unseen.text());
    }
    text
}

fn put(text: &mut String, process: &Process, top: usize) {
    let functions = spent(process);
    if functions.is_empty() {
        text.push_str("  no function was seen\n");
        return;
    }
    let share = |us: u64| us as f64 / process.us() as f64 * 100.0;
    // A String takes everything.
    let _ = writeln!(text, "  {:>7}  {:>7}  FUNCTION", "SELF", "TOTAL");
    for function in functions.iter().take(top) {
        let _ = writeln!(
            text,
            "  {:>5.1} %  {:>5.1} %  {}",
            share(function.own_us),
            share(function.total_us),
            shortened(function.name)
        );
    }
    if functions.len() > top {
        let _ = writeln!(text, "  and {} more", functions.len() - top);
    }
    if process.left_out_us > 0 {
        let _ = writeln!(
            text,
            "  {:.2} s more are not in it: there was no room for so many different stacks",
            process.left_out_us as f64 / 1e6
        );
    }
}

/// Each function once, those that ran longest themselves first.
fn spent(process: &Process) -> Vec<Spent<'_>> {
    let mut by_name: HashMap<&str, (u64, u64)> = HashMap::new();
    for stack in &process.stacks {
        let functions = process.functions(stack);
        // A function that calls itself is there once.
        let different: HashSet<&str> = functions.iter().map(String::as_str).collect();
        for name in different {
            by_name.entry(name).or_default().1 += stack.us;
        }
        if let Some(innermost) = functions.last() {
            by_name.entry(innermost).or_default().0 += stack.us;
        }
    }
    let mut spent: Vec<Spent<'_>> = by_name
        .into_iter()
        .map(|(name, (own_us, total_us))| Spent {
            name,
            own_us,
            total_us,
        })
        .collect();
    spent.sort_by(|a, b| {
        let key = |spent: &Spent<'_>| (spent.own_us, spent.total_us);
        key(b).cmp(&key(a)).then(a.name.cmp(b.name))
    });
    spent
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn report() -> Report {
        let json = r#"{
            "routes": ["GET /x"],
            "processes": [
                {"name": "server", "pid": 1, "runtime": "native", "left_out_us": 20000, "stacks": [
                    {"frames": ["io-0", "main", "poll", "read"], "us": 600000},
                    {"frames": ["io-1", "main", "poll", "poll"], "us": 300000},
                    {"frames": ["io-1"], "us": 100000}
                ]},
                {"name": "worker 1 of pool p", "pid": 2, "runtime": "node/22.1.0", "stacks": [
                    {"frames": ["handle <b> a.mjs:3"], "us": 1000}
                ]},
                {"name": "worker 2 of pool p", "pid": 3, "runtime": "node/22.1.0", "stacks": []}
            ],
            "unseen": [{"pool": "q", "worker": 1, "pid": 4, "runtime": "bun/1.2.0", "why": "no"}]
        }"#;
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_function_has_its_own_time_and_that_of_what_it_calls() {
        let report = report();
        let spent = spent(&report.processes[0]);
        let seen: Vec<(&str, u64, u64)> = spent
            .iter()
            .map(|spent| (spent.name, spent.own_us, spent.total_us))
            .collect();
        assert_eq!(
            seen,
            [
                ("read", 600_000, 600_000),
                ("poll", 300_000, 900_000),
                ("main", 0, 900_000)
            ]
        );
    }

    #[test]
    fn the_table_has_each_process_and_those_that_were_not_seen() {
        let text = text(&report(), "GET /x: 5 of the 6 requests", 2);
        assert_eq!(
            text,
            "GET /x: 5 of the 6 requests\n\n\
             server, process 1: 1.00 s of CPU time\n\
             \x20    SELF    TOTAL  FUNCTION\n\
             \x20  60.0 %   60.0 %  read\n\
             \x20  30.0 %   90.0 %  poll\n\
             \x20 and 1 more\n\
             \x20 0.02 s more are not in it: there was no room for so many different stacks\n\n\
             worker 1 of pool p (node/22.1.0), process 2: 0.00 s not idle\n\
             \x20    SELF    TOTAL  FUNCTION\n\
             \x20 100.0 %  100.0 %  handle <b> a.mjs:3\n\n\
             worker 2 of pool p (node/22.1.0), process 3: 0.00 s not idle\n\
             \x20 no function was seen\n\n\
             worker 1 of pool q (bun/1.2.0), process 4, is not profiled: no\n"
        );
    }
}
