//! What scripts count. A reload loads a script anew; the counts of its name go on, and engines of before are among those of now until they
//! have ended.

use std::{collections::BTreeMap, sync::Arc};

use forebay_script::{Counted, Counts};
use parking_lot::Mutex;

/// The counts of all scripts, by name.
#[derive(Debug, Default)]
pub(crate) struct ScriptBook {
    scripts: Mutex<BTreeMap<String, Arc<Counts>>>,
}

impl ScriptBook {
    /// The counts of a script.
    pub(crate) fn of(&self, name: &str) -> Arc<Counts> {
        self.scripts.lock().entry(name.to_owned()).or_default().clone()
    }

    /// Forgets the scripts that are not there any more.
    pub(crate) fn keep(&self, is_there: impl Fn(&str) -> bool) {
        self.scripts.lock().retain(|name, _| is_there(name));
    }

    /// Every script's counts, by name.
    pub(crate) fn read(&self) -> Vec<(String, Counted)> {
        let scripts = self.scripts.lock();
        scripts
            .iter()
            .map(|(name, counts)| (name.clone(), counts.read()))
            .collect()
    }
}
