//! Counts of routes. A route that keeps its name continues its counts after a reload.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use super::durations::{Durations, Recorder, add};
use crate::config;

/// Response classes by the first digit of the status; index 0 counts requests whose client left before a response.
pub(crate) const CLASSES: [&str; 6] = ["gone", "1xx", "2xx", "3xx", "4xx", "5xx"];
/// The name under which requests without a matching route are counted.
const UNROUTED: &str = "(none)";

/// Counts of one route. Each I/O thread has its own, so that no two cores write to the same memory.
#[derive(Debug)]
pub(crate) struct RouteCounts {
    name: String,
    threads: Box<[ThreadCounts]>,
}

/// The counts of one thread, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ThreadCounts {
    classes: [AtomicU64; CLASSES.len()],
    durations: Recorder,
}

impl RouteCounts {
    fn new(name: &str, threads: usize) -> Self {
        Self {
            name: name.to_owned(),
            threads: (0..threads).map(|_| ThreadCounts::default()).collect(),
        }
    }

    /// The route's unique name: methods if it names any, host if it has one, path.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn of_thread(&self, thread: usize) -> &ThreadCounts {
        &self.threads[thread]
    }

    pub(crate) fn totals(&self) -> RouteTotals {
        let mut totals = RouteTotals {
            name: self.name.clone(),
            classes: [0; CLASSES.len()],
            durations: Durations::default(),
        };
        for thread in &self.threads {
            for (sum, class) in totals.classes.iter_mut().zip(&thread.classes) {
                *sum += class.load(Ordering::Relaxed);
            }
            totals.durations.add(&thread.durations);
        }
        totals
    }
}

impl ThreadCounts {
    /// Counts a request: the status of its response (0 if the client left before) and the time from its arrival to the end of the response.
    /// Only the owning thread may call this.
    pub(crate) fn count(&self, status: u16, duration: Duration) {
        let class = usize::from(status / 100).min(CLASSES.len() - 1);
        add(&self.classes[class], 1);
        if class > 0 {
            self.durations.record(duration);
        }
    }
}

/// A route's counts summed over all threads.
#[derive(Clone, Debug)]
pub(crate) struct RouteTotals {
    pub(crate) name: String,
    /// Requests by class, in the order of [`CLASSES`].
    pub(crate) classes: [u64; CLASSES.len()],
    /// Durations of the requests that were answered.
    pub(crate) durations: Durations,
}

/// Registry of all routes' counts, by name.
#[derive(Debug)]
pub(crate) struct RouteMetrics {
    threads: usize,
    unrouted: Arc<RouteCounts>,
    routes: Mutex<BTreeMap<String, Arc<RouteCounts>>>,
}

impl RouteMetrics {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            threads,
            unrouted: Arc::new(RouteCounts::new(UNROUTED, threads)),
            routes: Mutex::default(),
        }
    }

    /// How many I/O threads count.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Counts of requests that no route matched.
    pub(crate) fn unrouted(&self) -> Arc<RouteCounts> {
        self.unrouted.clone()
    }

    /// The counts of the route with this name, created if there are none.
    pub(crate) fn of(&self, name: String) -> Arc<RouteCounts> {
        let mut routes = self.routes.lock();
        let counts = routes
            .entry(name)
            .or_insert_with_key(|name| Arc::new(RouteCounts::new(name, self.threads)));
        counts.clone()
    }

    /// Drops the counts of routes that this configuration does not have.
    pub(crate) fn keep(&self, config: &config::Config) {
        let paths = config.login_paths();
        let routes = config.routes.iter().map(name_of);
        let names: Vec<String> = routes.chain(paths.iter().map(login_name)).collect();
        self.routes.lock().retain(|name, _| names.contains(name));
    }

    /// The counts of all routes, by name; first those of unmatched requests.
    pub(crate) fn totals(&self) -> Vec<RouteTotals> {
        let routes: Vec<_> = self.routes.lock().values().cloned().collect();
        std::iter::once(&self.unrouted)
            .chain(&routes)
            .map(|counts| counts.totals())
            .collect()
    }
}

/// The route's name in metrics.
pub(crate) fn name_of(route: &config::Route) -> String {
    let host = route.host.as_deref().unwrap_or_default();
    if route.methods().is_empty() {
        return format!("{host}{}", route.path);
    }
    format!("{} {host}{}", route.methods().join(","), route.path)
}

/// The name of a path of logins, as that of a route.
pub(crate) fn login_name(login: &config::LoginPath) -> String {
    let host = login.host.as_deref().unwrap_or_default();
    format!("{} {host}{}", login.methods.join(","), login.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> config::Config {
        let text = format!("[[route]]\n{text}\nrespond = {{ text = \"\" }}");
        let environment = config::Environment::current();
        config::Config::parse(&text, std::path::Path::new("/forebay.toml"), &environment).unwrap()
    }

    #[test]
    fn a_route_is_named_by_all_that_tells_it_apart() {
        let name = |text: &str| name_of(&config(text).routes[0]);
        assert_eq!(name("path = \"/a/:b\""), "/a/:b");
        let text = "path = \"/a\"\nmethods = [\"GET\", \"PUT\"]\nhost = \"b.example\"";
        assert_eq!(name(text), "GET,PUT b.example/a");
    }

    #[test]
    fn counts_go_on_after_a_reload_and_are_those_of_all_threads() {
        let book = RouteMetrics::new(2);
        let of = |name: &str| book.of(name.to_owned());
        of("/a").of_thread(0).count(200, Duration::from_millis(1));
        of("/b").of_thread(0).count(200, Duration::from_millis(1));
        book.keep(&config("path = \"/a\""));
        of("/a").of_thread(1).count(503, Duration::from_millis(2));
        of("/a").of_thread(1).count(0, Duration::from_millis(2));
        let totals = book.totals();
        let names: Vec<_> = totals.iter().map(|route| route.name.as_str()).collect();
        assert_eq!(names, ["(none)", "/a"]);
        assert_eq!(totals[1].classes, [1, 0, 1, 0, 0, 1]);
        assert_eq!(
            (totals[1].durations.count(), totals[1].durations.sum_us),
            (2, 3_000)
        );
    }
}
