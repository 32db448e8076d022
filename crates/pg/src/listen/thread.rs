//! The thread that owns the listeners' connection, and reopens it when it breaks.

use std::{collections::HashSet, sync::Arc, time::Duration};

use super::{Hub, line::Line};
use crate::PgError;

/// Pauses between connection attempts double from the first to the last.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// A connection silent for this long is probed.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// How long the thread stays without listeners.
const IDLE_MAX: Duration = Duration::from_secs(10);

pub(super) fn start(hub: &Arc<Hub>) -> Result<(), PgError> {
    let unstarted = |error: std::io::Error| PgError::Connect {
        address: hub.settings.server.to_string(),
        reason: error.to_string(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(unstarted)?;
    let hub = Arc::clone(hub);
    let thread = std::thread::Builder::new().name("sql-listen".to_owned());
    let spawned = thread.spawn(move || runtime.block_on(serve(&hub)));
    spawned.map(drop).map_err(unstarted)
}

async fn serve(hub: &Hub) {
    let mut pause = PAUSE;
    loop {
        if hub.channels().is_empty() {
            let idle = tokio::time::timeout(IDLE_MAX, hub.changed.notified()).await;
            if idle.is_err() && hub.end_service() {
                return;
            }
            continue;
        }
        let mut line = match Line::connect(&hub.settings).await {
            Ok(line) => line,
            Err(error) => {
                hub.refuse(&error);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
                continue;
            }
        };
        match keep(&mut line, hub, &mut pause).await {
            // There are no listeners, so the connection is closed.
            Ok(()) => {}
            Err(error) => {
                let source = &*hub.source;
                tracing::warn!(target: "forebay::sql", source, "listening broke off, and begins again: {error}");
                // After any other error the new listeners wait for the next connection.
                if matches!(&error, PgError::Server(error) if !error.is_fatal) {
                    hub.refuse(&error);
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}

/// Keeps the server's subscriptions in line with the listeners' channels, until there are no listeners.
async fn keep(line: &mut Line, hub: &Hub, pause: &mut Duration) -> Result<(), PgError> {
    let mut known: HashSet<Arc<str>> = HashSet::new();
    loop {
        let wanted: HashSet<Arc<str>> = hub.channels();
        if wanted.is_empty() {
            return Ok(());
        }
        let new: Vec<_> = wanted
            .iter()
            .filter(|channel| !known.contains(*channel))
            .cloned()
            .collect();
        let mut commands = String::new();
        known.retain(|channel| {
            let stays = wanted.contains(channel);
            if !stays {
                command("unlisten", channel, &mut commands);
            }
            stays
        });
        for channel in &new {
            command("listen", channel, &mut commands);
        }
        if !commands.is_empty() {
            line.run(&commands, hub).await?;
        }
        hub.begun(&new);
        known.extend(new);
        hub.welcome(&wanted);
        *pause = PAUSE;
        tokio::select! {
            heard = line.hear(hub) => heard?,
            () = hub.changed.notified() => {}
            () = tokio::time::sleep(SILENCE_MAX) => line.run("", hub).await?,
        }
    }
}

/// Appends a command on a channel, with the channel's name quoted.
fn command(word: &str, channel: &str, out: &mut String) {
    out.push_str(word);
    out.push_str(" \"");
    out.push_str(&channel.replace('"', "\"\""));
    out.push_str("\";");
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn nothing_in_the_name_of_a_channel_ends_it() {
        let mut out = String::new();
        command("listen", "a\"; drop table b; --", &mut out);
        assert_eq!(out, "listen \"a\"\"; drop table b; --\";");
    }
}
