//! Health checks: requests of a group's own to each of its servers.

use std::{
    future::poll_fn,
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, header::HOST};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{Connections, Exchange, Group, HealthCheck, Lease, connect};

impl Group {
    /// Checks all servers of a group again and again until the group is gone. Must run within a [`tokio::task::LocalSet`].
    pub async fn check_health(group: Weak<Self>) {
        let mut checks = JoinSet::new();
        let Some(count) = group.upgrade().map(|group| group.servers().len()) else {
            return;
        };
        for at in 0..count {
            checks.spawn_local(check_server(Weak::clone(&group), at));
        }
        checks.join_all().await;
    }
}

async fn check_server(group: Weak<Group>, at: usize) {
    loop {
        let interval = {
            let Some(group) = group.upgrade() else { return };
            let Some(check) = group.settings().check.clone() else {
                return;
            };
            let found = match timeout(check.timeout, ask(&group, at, &check)).await {
                Ok(found) => found,
                Err(_) => Err(format!("it did not answer within {:?}", check.timeout)),
            };
            group.note_health(&group.servers()[at], found);
            check.interval
        };
        sleep(interval.max(Duration::from_millis(1))).await;
    }
}

/// Asks a server whether it is well.
async fn ask(group: &Arc<Group>, at: usize, check: &HealthCheck) -> Result<(), String> {
    let lease = Lease::of_check(group, at);
    // A new connection each time: that it can be made is a part of being well.
    let connections = Connections::default();
    let connection = connect(&lease, check.timeout)
        .await
        .map_err(|failure| failure.to_string())?;
    let host = group.settings().host.clone();
    let authority = host.unwrap_or_else(|| lease.server().address().authority());
    let request = if connection.is_http2() {
        Request::get(format!("http://{authority}{}", check.path)).body(())
    } else {
        Request::get(&*check.path).header(HOST, authority).body(())
    };
    let request = request.map_err(|error| error.to_string())?;
    let mut exchange = Exchange::begin(lease, connection, &connections, request, Bytes::new(), true);
    let head = poll_fn(|cx| exchange.poll_response(cx))
        .await
        .map_err(|failure| failure.to_string())?;
    if head.status.as_u16() >= 400 {
        return Err(format!("{} answers {}", check.path, head.status));
    }
    while poll_fn(|cx| exchange.poll_body(cx))
        .await
        .map_err(|failure| failure.to_string())?
        .is_some()
    {}
    Ok(())
}
