//! The durable routes of a configuration.

use std::{collections::BTreeMap, sync::Arc};

use forebay_jobs::{Policy, QueueLimits, Schedule};
use forebay_pool::Pool;
use forebay_workflow::Priority;
use tokio::sync::watch;

use crate::{
    config::{self, Config},
    jobs::{JobRoute, ScheduledRequest},
    metrics::name_of,
    store::OpenStore,
    target::pool,
};

/// How the jobs of the durable routes are done.
pub(super) fn job_routes(
    config: &Config,
    pools: &BTreeMap<String, Pool>,
    store: Option<&Arc<OpenStore>>,
    held: &Arc<watch::Sender<()>>,
) -> Vec<Arc<JobRoute>> {
    let job_route = |route: &config::Route| {
        let (config::Target::Pool(name), Some(durable)) = (&route.target, &route.durable) else {
            return None;
        };
        let (of, pool) = (&config.pools[name], pools[name].clone());
        let writes = of.store_mode() == config::StoreMode::ReadWrite;
        Some(Arc::new(JobRoute {
            queue: name_of(route),
            policy: Policy {
                attempts: durable.attempts,
                backoff: durable.backoff,
                kept: durable.kept,
            },
            at_a_time: durable.at_a_time,
            rank: match durable.priority {
                Priority::High => 0,
                Priority::Normal => 1,
                Priority::Low => 2,
            },
            schedule: durable.schedule.clone().map(|expression| ScheduledRequest {
                schedule: Schedule {
                    expression,
                    zone: durable.time_zone,
                },
                method: route.methods.iter().flatten().next().cloned().unwrap_or_default(),
                path: route.path.clone(),
            }),
            bounds: QueueLimits {
                open_max: durable.open_max,
                bytes_max: durable.bytes_max,
            },
            room: of.workers.max * of.concurrency.unwrap_or(1) as usize,
            limits: pool::limits(of.queue_timeout, durable.timeout, config::Retry::Never),
            first_bytes_max: pool::first_bytes_max(&pool, of.message_bytes_max as usize),
            pool,
            store: store.filter(|_| writes).cloned(),
            held: Arc::clone(held),
        }))
    };
    config.routes.iter().filter_map(job_route).collect()
}
