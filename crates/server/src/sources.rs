//! Databases by their names: one whose settings are as they were keeps its connections over a reload.

use std::collections::BTreeMap;

use forebay_pg::{Settings, Source};
use parking_lot::Mutex;

/// The databases of a server.
#[derive(Debug, Default)]
pub(crate) struct SourceBook {
    sources: Mutex<BTreeMap<String, Source>>,
}

impl SourceBook {
    /// The database of this name with these settings.
    pub(crate) fn of(&self, name: &str, settings: &Settings, threads: usize) -> Source {
        let mut sources = self.sources.lock();
        if let Some(known) = sources.get(name)
            && known.settings() == settings
        {
            return known.clone();
        }
        let source = Source::new(name, settings.clone(), threads);
        sources.insert(name.to_owned(), source.clone());
        source
    }
}
