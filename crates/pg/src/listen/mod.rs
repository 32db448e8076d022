//! What others tell a database's listeners (manual, `LISTEN`).
//!
//! A source has one connection for all who listen, on a thread of its own, as long as anybody does. When that breaks it is made again, and all are told that they may have missed something.

mod line;
mod thread;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    mem,
    sync::Arc,
    time::Instant,
};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::{PgError, Settings};

/// Listeners of a source.
const LISTENERS_MAX: usize = 4096;
/// What waits for a listener that does not take it; what comes then is lost to it, and it is told so.
const WAITING_MAX: usize = 256;
/// Longest name of a channel, as the server has it.
const CHANNEL_BYTES_MAX: usize = 63;

/// What a listener hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Somebody has told the channel this.
    Payload(String),
    /// From here on nothing is missed, but before this something may have been.
    Lost,
}

/// Somebody who listens to a channel, until this is dropped.
#[derive(Debug)]
pub struct Listener {
    hub: Arc<Hub>,
    channel: Arc<str>,
    inbox: Arc<Inbox>,
}

/// All who listen to a database.
#[derive(Debug)]
pub(crate) struct Hub {
    source: String,
    settings: Settings,
    state: Mutex<State>,
    /// Channels have come or gone.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    channels: HashMap<Arc<str>, Vec<Place>>,
    listeners: usize,
    /// Whether there is a thread.
    is_served: bool,
}

/// A listener as the connection's thread knows it.
#[derive(Debug)]
struct Place {
    inbox: Arc<Inbox>,
    /// Told once the server has been told of the channel.
    begun: Option<oneshot::Sender<Result<(), PgError>>>,
}

/// What a listener has not taken yet.
#[derive(Debug, Default)]
struct Inbox {
    waiting: Mutex<Waiting>,
    came: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    payloads: VecDeque<String>,
    /// Something after them is missing.
    has_lost: bool,
}

impl Inbox {
    fn put(&self, payload: &str) {
        let mut waiting = self.waiting.lock();
        // What came after something that is missing would hide that.
        if waiting.has_lost {
            return;
        }
        if waiting.payloads.len() < WAITING_MAX {
            waiting.payloads.push_back(payload.to_owned());
        } else {
            waiting.has_lost = true;
        }
        drop(waiting);
        self.came.notify_one();
    }

    fn lose(&self) {
        self.waiting.lock().has_lost = true;
        self.came.notify_one();
    }

    fn take(&self) -> Vec<Heard> {
        let mut waiting = self.waiting.lock();
        let mut heard: Vec<Heard> = waiting.payloads.drain(..).map(Heard::Payload).collect();
        if mem::take(&mut waiting.has_lost) {
            heard.push(Heard::Lost);
        }
        heard
    }
}

impl Listener {
    /// All that was heard since the last time: at least one thing. It may be dropped and asked again.
    pub async fn hear(&self) -> Vec<Heard> {
        loop {
            let heard = self.inbox.take();
            if !heard.is_empty() {
                return heard;
            }
            self.inbox.came.notified().await;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut state = self.hub.state.lock();
        let Some(places) = state.channels.get_mut(&self.channel) else {
            return;
        };
        let before = places.len();
        places.retain(|place| !Arc::ptr_eq(&place.inbox, &self.inbox));
        let gone = before - places.len();
        if places.is_empty() {
            state.channels.remove(&self.channel);
        }
        state.listeners -= gone;
        drop(state);
        self.hub.changed.notify_one();
    }
}

impl Hub {
    pub(crate) fn new(source: &str, settings: &Settings) -> Self {
        Self {
            source: source.to_owned(),
            settings: settings.clone(),
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Listens to a channel. Its future ends when the server knows that.
    pub(crate) async fn listen(
        self: &Arc<Self>,
        channel: &str,
        deadline: Instant,
    ) -> Result<Listener, PgError> {
        if channel.is_empty() || channel.len() > CHANNEL_BYTES_MAX || channel.contains('\0') {
            return Err(PgError::Unsendable {
                reason: format!(
                    "the name of a channel has 1 to {CHANNEL_BYTES_MAX} bytes, none of them zero, and not {}",
                    channel.len()
                ),
            });
        }
        let (begun, begins) = oneshot::channel();
        let listener = self.add(channel, begun)?;
        self.changed.notify_one();
        let limit = self.settings.acquire_timeout;
        let until = deadline.min(Instant::now() + limit);
        let begins = tokio::time::timeout_at(until.into(), begins).await;
        // Who does not wait any more is no listener: it is dropped here.
        match begins {
            Ok(Ok(begun)) => begun.map(|()| listener),
            Ok(Err(_)) => Err(PgError::Broken {
                reason: "its thread has ended".into(),
            }),
            Err(_) => Err(PgError::TimedOut {
                what: crate::Stage::Acquire,
                limit,
            }),
        }
    }

    fn add(
        self: &Arc<Self>,
        channel: &str,
        begun: oneshot::Sender<Result<(), PgError>>,
    ) -> Result<Listener, PgError> {
        let mut state = self.state.lock();
        if state.listeners >= LISTENERS_MAX {
            return Err(PgError::TooManyListeners {
                listeners_max: LISTENERS_MAX,
            });
        }
        if !state.is_served {
            thread::start(self)?;
            state.is_served = true;
        }
        state.listeners += 1;
        let known = state.channels.get_key_value(channel);
        let channel = known.map_or_else(|| Arc::from(channel), |(channel, _)| Arc::clone(channel));
        let inbox = Arc::new(Inbox::default());
        let place = Place {
            inbox: Arc::clone(&inbox),
            begun: Some(begun),
        };
        state
            .channels
            .entry(Arc::clone(&channel))
            .or_default()
            .push(place);
        drop(state);
        Ok(Listener {
            hub: Arc::clone(self),
            channel,
            inbox,
        })
    }

    /// Somebody has told a channel something.
    fn deliver(&self, channel: &str, payload: &str) {
        let state = self.state.lock();
        for place in state.channels.get(channel).into_iter().flatten() {
            place.inbox.put(payload);
        }
    }

    /// The server knows of these channels, on a connection made for them: who has listened before may have missed something.
    fn begun(&self, channels: &[Arc<str>]) {
        let mut state = self.state.lock();
        for channel in channels {
            for place in state.channels.get_mut(channel).into_iter().flatten() {
                match place.begun.take() {
                    // Who has stopped waiting for that is about to go.
                    Some(begun) => drop(begun.send(Ok(()))),
                    None => place.inbox.lose(),
                }
            }
        }
    }

    /// Tells those who have come to a channel that the server knows of already.
    fn welcome(&self, channels: &HashSet<Arc<str>>) {
        let mut state = self.state.lock();
        for channel in channels {
            for place in state.channels.get_mut(channel).into_iter().flatten() {
                if let Some(begun) = place.begun.take() {
                    drop(begun.send(Ok(())));
                }
            }
        }
    }

    /// Nobody can listen now: who has just come is told, and is no listener.
    fn refuse(&self, error: &PgError) {
        let mut state = self.state.lock();
        let mut gone = 0;
        for places in state.channels.values_mut() {
            places.retain_mut(|place| match place.begun.take() {
                Some(begun) => {
                    drop(begun.send(Err(error.clone())));
                    gone += 1;
                    false
                }
                None => true,
            });
        }
        state.channels.retain(|_, places| !places.is_empty());
        state.listeners -= gone;
    }

    /// The channels that somebody listens to.
    fn channels(&self) -> HashSet<Arc<str>> {
        self.state.lock().channels.keys().cloned().collect()
    }

    /// Ends the service, if nobody listens.
    fn end_service(&self) -> bool {
        let mut state = self.state.lock();
        let ends = state.channels.is_empty();
        if ends {
            state.is_served = false;
        }
        ends
    }
}
