//! The groups of other HTTP servers of an app, and the thread that checks their health.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use forebay_upstream::Group;
use tokio::{
    sync::oneshot,
    task::{LocalSet, spawn_local},
};

use super::{BuildError, Services};
use crate::config::Config;

/// The groups of other HTTP servers. Those whose settings have not changed go on, with what is known of their servers and with their counts;
/// authorities are read anew.
pub(super) fn proxies(
    config: &Config,
    services: &Services,
) -> Result<BTreeMap<String, Arc<Group>>, BuildError> {
    let mut known = services.proxies.lock();
    known.retain(|group| group.strong_count() > 0);
    let mut proxies = BTreeMap::new();
    for (name, proxy) in &config.proxies {
        let settings = &proxy.settings(name);
        let kept = known.iter().filter_map(Weak::upgrade);
        let kept = kept.filter(|group| settings.authorities.is_none() && group.settings() == settings);
        let group = match kept.into_iter().next() {
            Some(group) => group,
            None => {
                let group = Group::new(settings.clone()).map_err(|source| BuildError::Authorities {
                    proxy: name.clone(),
                    source,
                })?;
                known.push(Arc::downgrade(&group));
                group
            }
        };
        proxies.insert(name.clone(), group);
    }
    Ok(proxies)
}

/// The thread that checks the health of other servers; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct HealthChecks(
    #[expect(dead_code, reason = "dropping it ends the thread")] oneshot::Sender<()>,
);

impl HealthChecks {
    /// `None` if there is nothing to check.
    pub(super) fn start(proxies: &BTreeMap<String, Arc<Group>>) -> std::io::Result<Option<Self>> {
        let checked = proxies.values().filter(|group| group.settings().check.is_some());
        let checked: Vec<_> = checked.map(Arc::downgrade).collect();
        if checked.is_empty() {
            return Ok(None);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (ending, ended) = oneshot::channel();
        std::thread::Builder::new()
            .name("health".to_owned())
            .spawn(move || {
                LocalSet::new().block_on(&runtime, async {
                    for group in checked {
                        spawn_local(Group::check_health(group));
                    }
                    // Nothing is ever sent: this ends with the sender, and with it the checks.
                    let _ = ended.await;
                });
            })?;
        Ok(Some(Self(ending)))
    }
}
