//! Counters of the last hour, for the console's plots: a point every ten seconds.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::metrics::{CLASSES, Durations, Facts};

/// Time between two points.
pub(in crate::admin) const EVERY: Duration = Duration::from_secs(10);
/// Points of an hour.
const POINTS: usize = 360;
/// Most routes with points, the busiest ones.
const ROUTES_MAX: usize = 100;
/// Most pools with points.
const POOLS_MAX: usize = 100;

/// A value of each point, oldest first; `None` where there was nothing to measure.
type Series = VecDeque<Option<f32>>;
/// The thing that is measured, its name, and the name of the value.
type Name = (&'static str, String, &'static str);

/// The points of the last hour.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<Points>);

#[derive(Debug, Default)]
struct Points {
    /// When each was taken, in milliseconds since the Unix epoch.
    at_ms: VecDeque<u64>,
    series: BTreeMap<Name, Series>,
    /// The counters at the last point.
    last: Option<Counters>,
}

#[derive(Debug)]
struct Counters {
    cpu: Duration,
    commits: u64,
    routes: BTreeMap<String, ([u64; CLASSES.len()], Durations)>,
}

impl History {
    /// Adds a point.
    pub(crate) fn add(&self, facts: &Facts) {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.0.lock().add(at, facts);
    }

    /// All points, as the console reads them.
    pub(super) fn json(&self) -> Value {
        self.0.lock().json()
    }
}

impl Points {
    fn add(&mut self, at: Duration, facts: &Facts) {
        let at_ms = at.as_millis() as u64;
        let passed = self.at_ms.back().map_or(EVERY.as_secs_f64(), |last| {
            Duration::from_millis(at_ms.saturating_sub(*last))
                .as_secs_f64()
                .max(0.001)
        });
        let commits = facts.store.as_ref().map_or(0, |store| store.writer.commits);
        let routes: BTreeMap<_, _> = facts
            .routes
            .iter()
            .map(|route| (route.name.clone(), (route.classes, route.durations.clone())))
            .collect();
        let now = Counters {
            cpu: facts.process.cpu,
            commits,
            routes,
        };
        let mut found = BTreeMap::new();
        let mut put = |of: &'static str, name: &str, value: &'static str, number: Option<f64>| {
            found.insert((of, name.to_owned(), value), number.map(|number| number as f32));
        };
        put("server", "", "connections", Some(facts.connections.open as f64));
        put(
            "server",
            "",
            "rss_bytes",
            facts.process.rss_bytes.map(|bytes| bytes as f64),
        );
        if let Some(store) = &facts.store {
            put("store", "", "queued", Some(store.writer.queued as f64));
        }
        let pools = facts.pools.current.iter();
        for pool in pools.take(POOLS_MAX) {
            let in_flight: usize = pool.workers.iter().map(|worker| worker.in_flight).sum();
            put("pools", &pool.name, "queued", Some(pool.queued as f64));
            put("pools", &pool.name, "in_flight", Some(in_flight as f64));
            put("pools", &pool.name, "workers", Some(pool.workers.len() as f64));
        }
        if let Some(last) = &self.last {
            let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / passed;
            let cpu = now.cpu.saturating_sub(last.cpu).as_secs_f64() / passed;
            put("server", "", "cpu", Some(cpu));
            if facts.store.is_some() {
                put("store", "", "commits", Some(rate(now.commits, last.commits)));
            }
            let mut busiest: Vec<_> = now.routes.iter().collect();
            busiest.sort_by_key(|(_, (classes, _))| std::cmp::Reverse(classes.iter().sum::<u64>()));
            for (name, (classes, durations)) in busiest.into_iter().take(ROUTES_MAX) {
                let none = ([0; CLASSES.len()], Durations::default());
                let (then, durations_then) = last.routes.get(name).unwrap_or(&none);
                let sum = |classes: &[u64]| classes.iter().sum::<u64>();
                put("routes", name, "requests", Some(rate(sum(classes), sum(then))));
                let failed = |classes: &[u64; CLASSES.len()]| classes[CLASSES.len() - 1];
                put(
                    "routes",
                    name,
                    "failures",
                    Some(rate(failed(classes), failed(then))),
                );
                let percentiles = durations.since(durations_then).percentiles();
                let measured = (percentiles.count > 0).then_some(percentiles);
                put("routes", name, "p50_us", measured.map(|of| of.p50_us as f64));
                put("routes", name, "p99_us", measured.map(|of| of.p99_us as f64));
            }
        }
        self.last = Some(now);
        self.push(at_ms, &found);
    }

    /// Appends a value to each series. One that has had none for an hour goes.
    fn push(&mut self, at_ms: u64, found: &BTreeMap<Name, Option<f32>>) {
        let before = self.at_ms.len();
        for key in found.keys() {
            let new = || std::iter::repeat_n(None, before).collect();
            self.series.entry(key.clone()).or_insert_with(new);
        }
        self.at_ms.push_back(at_ms);
        for (key, series) in &mut self.series {
            series.push_back(found.get(key).copied().flatten());
        }
        if self.at_ms.len() > POINTS {
            self.at_ms.pop_front();
            self.series.retain(|_, series| {
                series.pop_front();
                series.iter().any(Option::is_some)
            });
        }
    }

    fn json(&self) -> Value {
        let mut points = json!({
            "every_ms": EVERY.as_millis() as u64,
            "at_ms": self.at_ms,
            "server": {},
            "routes": [],
            "pools": [],
            "store": null,
        });
        for ((of, name, value), series) in &self.series {
            let of_one = match *of {
                "routes" | "pools" => {
                    let key = if *of == "routes" { "route" } else { "name" };
                    let all = points[of].as_array_mut().expect("it was made above");
                    // Series are in the order of names.
                    if all.last().is_none_or(|last| last[key] != **name) {
                        all.push(json!({ key: name }));
                    }
                    all.last_mut().expect("one was just added")
                }
                of => &mut points[of],
            };
            of_one[value] = json!(series);
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_series_are_as_long_as_the_times_and_old_ones_go() {
        let mut points = Points::default();
        let value = |name: &str, value: f32| (("pools", name.to_owned(), "queued"), Some(value));
        points.push(1, &BTreeMap::from([value("old", 1.0)]));
        points.push(2, &BTreeMap::from([value("new", 2.0)]));
        assert_eq!(
            points.json()["pools"],
            json!([{ "name": "new", "queued": [null, 2.0] }, { "name": "old", "queued": [1.0, null] }])
        );
        for at in 0..POINTS {
            points.push(3 + at as u64, &BTreeMap::from([value("new", 3.0)]));
        }
        let told = points.json();
        assert_eq!(told["at_ms"].as_array().map(Vec::len), Some(POINTS));
        assert_eq!(told["pools"].as_array().map(Vec::len), Some(1));
        assert_eq!(told["pools"][0]["queued"], json!(vec![3.0; POINTS]));
    }
}
