//! The server's status for people. A missing member, as with a server of another version, is shown as `-`.

use serde_json::Value;

use super::table::Table;

/// The whole report.
pub(super) fn of(status: &Value) -> String {
    let mut parts = vec![
        summary(status),
        pools(status),
        workers(status),
        scripts(status),
        databases(status),
        proxies(status),
        jobs(status),
        routes(status),
    ];
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn summary(status: &Value) -> String {
    let listen: Vec<&str> = list(&status["listen"]).filter_map(Value::as_str).collect();
    let connections = &status["connections"];
    let on = if listen.is_empty() { "" } else { " on " };
    let mut out = format!(
        "forebay {}, pid {}, {}{on}{}\nup {}, configuration {}, {} connections open, {} accepted, memory {}\n",
        text(&status["version"]),
        text(&status["pid"]),
        text(&status["state"]),
        listen.join(", "),
        uptime(&status["uptime_s"]),
        text(&status["generation"]),
        text(&connections["open"]),
        text(&connections["accepted"]),
        memory(&status["process"]["rss_bytes"]),
    );
    for pool in list(&status["pools"]) {
        if let Some(reason) = pool["readiness"]["reason"].as_str() {
            out.extend(["pool ", &text(&pool["name"]), " is not ready: ", reason, "\n"]);
        }
    }
    for certificate in list(&status["certificates"]) {
        if let Some(reason) = certificate["failure"].as_str() {
            let name = text(&certificate["name"]);
            out.extend(["certificate ", &name, " was not obtained: ", reason, "\n"]);
        }
    }
    for database in list(&status["databases"]) {
        if let Some(reason) = database["reason"].as_str() {
            out.extend([
                "database ",
                &text(&database["name"]),
                " cannot be reached: ",
                reason,
                "\n",
            ]);
        }
    }
    out
}

fn pools(status: &Value) -> String {
    let mut table = Table::new([
        "POOL", "STATE", "WORKERS", "QUEUED", "ANSWERED", "FAILED", "REFUSED", "WAIT p50", "p99", "RUN p50",
        "p99",
    ]);
    let retiring = list(&status["retiring"]).map(|pool| (pool, "retiring"));
    let current =
        list(&status["pools"]).map(|pool| (pool, pool["readiness"]["state"].as_str().unwrap_or("-")));
    for (pool, state) in current.chain(retiring) {
        let (counters, wait, run) = (&pool["counters"], &pool["wait"], &pool["run"]);
        let ready = list(&pool["workers"])
            .filter(|worker| worker["phase"] == "ready")
            .count();
        table.add([
            text(&pool["name"]),
            state.to_owned(),
            format!("{ready}/{}", text(&pool["workers_max"])),
            format!("{}/{}", text(&pool["queued"]), text(&pool["queue_max"])),
            text(&counters["answered"]),
            sum(&counters["failed"]),
            sum(&counters["refused"]),
            percentile(wait, "p50_us"),
            percentile(wait, "p99_us"),
            percentile(run, "p50_us"),
            percentile(run, "p99_us"),
        ]);
    }
    table.lines()
}

fn workers(status: &Value) -> String {
    let mut table = Table::new(["POOL", "WORKER", "PROCESS", "STATE", "JOBS", "ANSWERED", "MEMORY"]);
    for pool in list(&status["pools"]).chain(list(&status["retiring"])) {
        for worker in list(&pool["workers"]) {
            table.add([
                text(&pool["name"]),
                text(&worker["id"]),
                worker["host"]
                    .as_str()
                    .map_or_else(|| text(&worker["pid"]), str::to_owned),
                text(&worker["phase"]),
                text(&worker["in_flight"]),
                text(&worker["answered"]),
                memory(&worker["rss_bytes"]),
            ]);
        }
    }
    table.lines()
}

fn scripts(status: &Value) -> String {
    let heading = [
        "SCRIPT", "THREADS", "QUEUED", "ON I/O", "ANSWERED", "FAULTED", "STOPPED", "REFUSED", "ENGINES",
        "MEMORY",
    ];
    table(heading, list(&status["scripts"]), |script| {
        [
            text(&script["name"]),
            text(&script["threads"]["running"]),
            text(&script["queued"]),
            text(&script["answered"]["io"]),
            sum(&script["answered"]),
            text(&script["faulted"]),
            sum(&script["stopped"]),
            text(&script["refused"]),
            text(&script["engines"]),
            memory(&script["engine_bytes"]),
        ]
    })
}

fn proxies(status: &Value) -> String {
    let mut table = Table::new(["PROXY", "SERVER", "STATE", "UNDER WAY", "REQUESTS", "FAILED"]);
    for proxy in list(&status["proxies"]) {
        for server in list(&proxy["servers"]) {
            let state = if server["up"] == true { "up" } else { "down" };
            table.add([
                text(&proxy["name"]),
                text(&server["address"]),
                state.to_owned(),
                text(&server["in_flight"]),
                text(&server["requests"]),
                text(&server["failures"]),
            ]);
        }
    }
    table.lines()
}

fn databases(status: &Value) -> String {
    let heading = [
        "DATABASE",
        "STATE",
        "DRIVER",
        "UNDER WAY",
        "DONE",
        "OTHERS",
        "ROWS",
        "WAIT mean",
        "RUN mean",
    ];
    table(heading, list(&status["databases"]), |database| {
        let statements = &database["statements"];
        let state = match database["reachable"].as_bool() {
            Some(true) => "ready",
            Some(false) => "down",
            None => "-",
        };
        let done = statements["done"].as_u64().unwrap_or(0);
        let all: u64 = statements
            .as_object()
            .map_or(0, |all| all.values().filter_map(Value::as_u64).sum());
        [
            text(&database["name"]),
            state.to_owned(),
            text(&database["driver"]),
            format!(
                "{}/{}",
                text(&database["in_flight"]),
                text(&database["in_flight_max"])
            ),
            done.to_string(),
            (all - done).to_string(),
            text(&database["rows"]),
            percentile(&database["wait"], "mean_us"),
            percentile(&database["execution"], "mean_us"),
        ]
    })
}

fn routes(status: &Value) -> String {
    let heading = ["ROUTE", "2xx", "3xx", "4xx", "5xx", "GONE", "p50", "p99"];
    table(heading, list(&status["routes"]), |route| {
        let (requests, duration) = (&route["requests"], &route["duration"]);
        [
            text(&route["route"]),
            text(&requests["2xx"]),
            text(&requests["3xx"]),
            text(&requests["4xx"]),
            text(&requests["5xx"]),
            text(&requests["gone"]),
            percentile(duration, "p50_us"),
            percentile(duration, "p99_us"),
        ]
    })
}

fn jobs(status: &Value) -> String {
    let heading = ["JOBS OF", "WAITING", "RUNNING", "DONE", "FAILED", "OLDEST"];
    table(heading, list(&status["jobs"]), |queue| {
        [
            text(&queue["queue"]),
            text(&queue["waiting"]),
            text(&queue["running"]),
            text(&queue["done"]),
            text(&queue["failed"]),
            queue["oldest_ms"]
                .as_u64()
                .map_or("-".to_owned(), |ms| micros(ms.saturating_mul(1000))),
        ]
    })
}

/// A row for each of the items.
fn table<'v, const COLUMNS: usize>(
    heading: [&str; COLUMNS],
    items: impl Iterator<Item = &'v Value>,
    row: impl Fn(&Value) -> [String; COLUMNS],
) -> String {
    let mut table = Table::new(heading);
    items.for_each(|item| table.add(row(item)));
    table.lines()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A count, or the sum of an object's counts by cause.
fn sum(value: &Value) -> String {
    match value {
        Value::Object(counts) => counts.values().filter_map(Value::as_u64).sum::<u64>().to_string(),
        count => text(count),
    }
}

/// A percentile of a histogram, in microseconds; `-` when it is empty.
fn percentile(histogram: &Value, name: &str) -> String {
    match histogram[name].as_u64() {
        None => "-".to_owned(),
        Some(_) if histogram["count"] == 0 => "-".to_owned(),
        Some(us) => micros(us),
    }
}

pub(crate) fn micros(us: u64) -> String {
    match us {
        ..1_000 => format!("{us} us"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

pub(crate) fn memory(bytes: &Value) -> String {
    match bytes.as_u64() {
        None => "-".to_owned(),
        Some(bytes @ ..0x4000_0000) => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        Some(bytes) => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

pub(crate) fn uptime(seconds: &Value) -> String {
    let Some(seconds) = seconds.as_f64().map(|seconds| seconds as u64) else {
        return "-".to_owned();
    };
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_told_in_the_unit_that_fits() {
        for (us, told) in [
            (0, "0 us"),
            (999, "999 us"),
            (1_500, "1.5 ms"),
            (2_000_000, "2.0 s"),
        ] {
            assert_eq!(percentile(&json!({ "count": 1, "p50_us": us }), "p50_us"), told);
        }
        assert_eq!(percentile(&json!({ "count": 0, "p50_us": 0 }), "p50_us"), "-");
        for (s, told) in [
            (0.9, "0s"),
            (61.0, "1m 1s"),
            (3_660.0, "1h 1m"),
            (90_000.0, "1d 1h"),
        ] {
            assert_eq!(uptime(&json!(s)), told);
        }
        assert_eq!(memory(&json!(3 << 19)), "1.5 MiB");
        assert_eq!(memory(&json!(5_u64 << 29)), "2.5 GiB");
    }

    #[test]
    fn a_status_without_members_is_still_a_report() {
        assert!(of(&json!({ "pools": [{ "name": "api" }] })).contains("0/-"));
    }
}
