//! Databases by their names: one whose settings are as they were keeps its connections over a reload.

use std::collections::BTreeMap;

use forebay_pg::{Counted, Settings, Source};
use parking_lot::Mutex;

use crate::config::Config;

/// The databases of a server.
#[derive(Debug, Default)]
pub(crate) struct SourceBook {
    sources: Mutex<BTreeMap<String, Known>>,
}

#[derive(Debug)]
struct Known {
    source: Source,
    threads: usize,
}

impl SourceBook {
    /// The database of this name in a configuration, which has it.
    pub(crate) fn of(&self, name: &str, config: &Config) -> Source {
        let settings: &Settings = &config.sql[name];
        let threads = threads(name, config);
        let mut sources = self.sources.lock();
        if let Some(known) = sources.get(name)
            && known.source.settings() == settings
            && known.threads == threads
        {
            return known.source.clone();
        }
        let source = Source::new(name, settings.clone(), threads);
        let known = Known {
            source: source.clone(),
            threads,
        };
        sources.insert(name.to_owned(), known);
        source
    }

    /// What is counted of every database, by name.
    pub(crate) fn read(&self) -> Vec<(String, Counted)> {
        let sources = self.sources.lock();
        let counted = |(name, known): (&String, &Known)| (name.clone(), known.source.counted());
        sources.iter().map(counted).collect()
    }

    /// Forgets the databases that a configuration has not.
    pub(crate) fn keep(&self, config: &Config) {
        self.sources
            .lock()
            .retain(|name, _| config.sql.contains_key(name));
    }
}

/// Threads whose statements go there: those of routes, those of scripts that may reach it, and the one that does what handlers in pools ask.
fn threads(name: &str, config: &Config) -> usize {
    let scripts = config.scripts.values();
    let reaching = scripts.filter(|script| script.allow.sql.iter().any(|allowed| allowed == name));
    let of_pools = config
        .pools
        .values()
        .any(|pool| pool.sql.iter().any(|allowed| allowed == name));
    config.server.threads + reaching.map(|script| script.executors).sum::<usize>() + usize::from(of_pools)
}
