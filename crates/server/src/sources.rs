//! Databases by name. A database whose settings did not change keeps its connections across reloads.

use std::collections::BTreeMap;

use forebay_pg::{Counted, Meter, Settings, Source};
use parking_lot::Mutex;

use crate::{
    config::{Config, Target},
    metrics::name_of,
};

/// All databases of the server.
#[derive(Debug, Default)]
pub(crate) struct DatabaseRegistry {
    sources: Mutex<BTreeMap<String, Known>>,
    /// By route name.
    meters: Mutex<BTreeMap<String, Meter>>,
}

/// A snapshot of all databases and of the counts of routes.
#[derive(Debug)]
pub(crate) struct DatabaseFacts {
    pub(crate) databases: Vec<Database>,
    /// Statement counts of each route.
    pub(crate) routes: Vec<(String, Counted)>,
}

/// A snapshot of one database.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    pub(crate) counted: Counted,
    /// Why the database is unreachable, if it is.
    pub(crate) failure: Option<String>,
}

#[derive(Debug)]
struct Known {
    source: Source,
    threads: usize,
}

impl DatabaseRegistry {
    /// The database of this name, which must exist in the configuration.
    pub(crate) fn of(&self, name: &str, config: &Config) -> Source {
        let settings: Settings = config.sql[name].settings();
        let threads = config.sql_threads(name);
        let mut sources = self.sources.lock();
        if let Some(known) = sources.get(name)
            && *known.source.settings() == settings
            && known.threads == threads
        {
            return known.source.clone();
        }
        let source = Source::new(name, settings, threads);
        let known = Known {
            source: source.clone(),
            threads,
        };
        sources.insert(name.to_owned(), known);
        source
    }

    /// All databases, sorted by name.
    pub(crate) fn all(&self) -> Vec<(String, Source)> {
        let sources = self.sources.lock();
        sources
            .iter()
            .map(|(name, known)| (name.clone(), known.source.clone()))
            .collect()
    }

    /// The meter that counts a route's statements.
    pub(crate) fn meter(&self, route: &str) -> Meter {
        self.meters.lock().entry(route.to_owned()).or_default().clone()
    }

    /// A snapshot of every database, sorted by name, and of the statement counts of routes.
    pub(crate) fn read(&self) -> DatabaseFacts {
        let known = |(name, source): (String, Source)| Database {
            counted: source.counted(),
            failure: source.failure().map(|failure| failure.to_string()),
            settings: source.settings().clone(),
            name,
        };
        let meters = self.meters.lock();
        let counted = |(route, meter): (&String, &Meter)| (route.clone(), meter.read());
        DatabaseFacts {
            databases: self.all().into_iter().map(known).collect(),
            routes: meters.iter().map(counted).collect(),
        }
    }

    /// Drops databases that are not in the configuration and counts of routes that have no statements in it.
    pub(crate) fn keep(&self, config: &Config) {
        self.sources
            .lock()
            .retain(|name, _| config.sql.contains_key(name));
        let routes = config.routes.iter();
        let routes = routes.filter(|route| matches!(route.target, Target::Sql(_)));
        let routes: Vec<String> = routes.map(name_of).collect();
        self.meters.lock().retain(|name, _| routes.contains(name));
    }
}
