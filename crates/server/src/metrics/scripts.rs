//! Counts of scripts. A reload loads a script anew; the counts under its name continue and include the engines of earlier generations until
//! these have ended.

use std::{collections::BTreeMap, sync::Arc};

use forebay_script::{Counted, Counts};
use parking_lot::Mutex;

/// Registry of all scripts' counts, by name.
#[derive(Debug, Default)]
pub(crate) struct ScriptMetrics {
    scripts: Mutex<BTreeMap<String, Arc<Counts>>>,
}

impl ScriptMetrics {
    /// The counts of a script, created if there are none.
    pub(crate) fn of(&self, name: &str) -> Arc<Counts> {
        self.scripts.lock().entry(name.to_owned()).or_default().clone()
    }

    /// Drops the counts of scripts that no longer exist.
    pub(crate) fn keep(&self, is_there: impl Fn(&str) -> bool) {
        self.scripts.lock().retain(|name, _| is_there(name));
    }

    /// The counts of all scripts, by name.
    pub(crate) fn read(&self) -> Vec<(String, Counted)> {
        let scripts = self.scripts.lock();
        scripts
            .iter()
            .map(|(name, counts)| (name.clone(), counts.read()))
            .collect()
    }
}
