//! The connection to NATS, and whether it is there.

use std::{fs, rc::Rc, time::Duration};

use async_nats::{Client, ConnectOptions, Event, Subject};
use tokio::sync::watch;

use crate::{Options, StartError};

/// How often the server is asked whether it is there. Three questions without an answer end the connection.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// Longest pause between attempts to connect.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// Time for one attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The connection of this process, which reconnects by itself.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    state: watch::Receiver<State>,
    cluster: Rc<str>,
}

#[derive(Clone, Debug)]
pub(crate) struct State {
    /// How often it was connected or disconnected.
    changes: u64,
    /// Why there is no connection; `None` if there is one.
    pub(crate) absence: Option<String>,
}

impl State {
    /// Before the first connection.
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            changes: 0,
            absence: Some(format!("NATS at {} is not connected yet", options.nats)),
        }
    }
}

impl Connection {
    /// Connects in the background, however long that takes, and records in `sender` whether there is a connection.
    pub(crate) async fn open(
        options: &Options,
        settings: ConnectOptions,
        sender: watch::Sender<State>,
    ) -> Self {
        let servers = options.nats.to_string();
        let state = sender.subscribe();
        let note = move |event: Event| {
            sender.send_if_modified(|state| {
                let absence = match event {
                    Event::Connected => None,
                    Event::Disconnected | Event::Closed => {
                        Some(format!("the connection to NATS at {servers} is lost"))
                    }
                    Event::ClientError(error) if state.absence.is_some() => {
                        Some(format!("NATS at {servers} cannot be reached: {error}"))
                    }
                    other => {
                        tracing::warn!(target: "forebay::cluster", "NATS at {servers}: {other}");
                        return false;
                    }
                };
                // Each attempt to connect fails for the same reason.
                let is_known = absence.is_some() && absence == state.absence;
                match &absence {
                    None => tracing::info!(target: "forebay::cluster", "connected to NATS at {servers}"),
                    Some(why) if !is_known => tracing::warn!(target: "forebay::cluster", "{why}"),
                    Some(_) => {}
                }
                state.changes += 1;
                state.absence = absence;
                !is_known
            });
        };
        let client = loop {
            let note = note.clone();
            let connect = settings
                .clone()
                .event_callback(move |event| {
                    note(event);
                    std::future::ready(())
                })
                .connect(options.nats.addresses());
            match connect.await {
                Ok(client) => break client,
                Err(error) => tracing::error!(target: "forebay::cluster", "cannot connect to NATS: {error}"),
            }
            tokio::time::sleep(PAUSE_MAX).await;
        };
        Self {
            client,
            state,
            cluster: options.name.as_str().into(),
        }
    }

    /// Why there is no connection, if there is none.
    pub(crate) fn absence(&self) -> Option<String> {
        self.state.borrow().absence.clone()
    }

    /// Waits until there is a connection, and gives its number for [`Self::lost`].
    pub(crate) async fn connected(&mut self) -> u64 {
        let connected = self.state.wait_for(|state| state.absence.is_none()).await;
        connected.expect("the client lives as long as this").changes
    }

    /// Waits until this connection is lost, or another one has taken its place.
    pub(crate) async fn lost(&mut self, number: u64) {
        let changed = self.state.wait_for(|state| state.changes != number).await;
        changed.expect("the client lives as long as this");
    }

    /// Waits for another reason why there is no connection, or for a connection.
    pub(crate) async fn changed(&mut self) {
        self.state
            .changed()
            .await
            .expect("the client lives as long as this");
    }

    /// The subject of a pool with this ending.
    pub(crate) fn subject(&self, pool: &str, end: &str) -> Subject {
        format!("forebay.{}.{pool}.{end}", self.cluster).into()
    }
}

/// How to connect. Credentials are read here, once.
pub(crate) fn settings(options: &Options) -> Result<ConnectOptions, StartError> {
    let mut settings = ConnectOptions::new()
        .name(format!("forebay {}", env!("CARGO_PKG_VERSION")))
        .retry_on_initial_connect()
        .max_reconnects(None)
        .connection_timeout(CONNECT_TIMEOUT)
        .ping_interval(PING_INTERVAL)
        .reconnect_delay_callback(|attempts| match attempts {
            0 | 1 => Duration::ZERO,
            more => PAUSE_MAX.min(Duration::from_millis(20) * u32::try_from(more).unwrap_or(u32::MAX)),
        });
    settings = match options.nats.login() {
        Some((user, Some(password))) => settings.user_and_password(user, password),
        Some((token, None)) => settings.token(token),
        None => settings,
    };
    if let Some(path) = &options.credentials {
        settings = fs::read_to_string(path)
            .and_then(|text| settings.credentials(&text))
            .map_err(|source| StartError::Credentials {
                path: path.clone(),
                source,
            })?;
    }
    if let Some(ca) = &options.ca {
        settings = settings.add_root_certificates(ca.clone());
    }
    if let (Some(cert), Some(key)) = (&options.cert, &options.key) {
        settings = settings.add_client_certificate(cert.clone(), key.clone());
    }
    Ok(settings)
}
