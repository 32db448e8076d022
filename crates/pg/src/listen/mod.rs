//! Notifications for a database's listeners (manual, `LISTEN`).
//!
//! A source has one connection for all its listeners, on a thread of its own, as long as there are any. When it breaks
//! it is opened again, and all listeners are told that they may have missed notifications.

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

/// Most listeners of a source.
const LISTENERS_MAX: usize = 4096;
/// Most notifications queued for a slow listener. Further ones are lost, which the listener is told.
const WAITING_MAX: usize = 256;
/// Longest name of a channel, as the server limits it.
const CHANNEL_BYTES_MAX: usize = 63;

/// An event for a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A notification on the channel.
    Payload(String),
    /// Notifications before this point may be missing; later ones are complete.
    Lost,
}

/// A subscription to a channel, which ends when this is dropped.
#[derive(Debug)]
pub struct Listener {
    hub: Arc<Hub>,
    channel: Arc<str>,
    inbox: Arc<Inbox>,
}

/// All listeners of a database.
#[derive(Debug)]
pub(crate) struct Hub {
    source: String,
    settings: Settings,
    state: Mutex<State>,
    /// Signalled when the set of channels has changed.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    channels: HashMap<Arc<str>, Vec<Place>>,
    listeners: usize,
    /// Whether the thread is running.
    is_served: bool,
}

/// A listener as the connection's thread sees it.
#[derive(Debug)]
struct Place {
    inbox: Arc<Inbox>,
    /// Notified once the server listens to the channel.
    begun: Option<oneshot::Sender<Result<(), PgError>>>,
}

/// Events that a listener has not read yet.
#[derive(Debug, Default)]
struct Inbox {
    waiting: Mutex<Waiting>,
    came: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    payloads: VecDeque<String>,
    /// Whether notifications after the queued ones are missing.
    has_lost: bool,
}

impl Inbox {
    fn put(&self, payload: &str) {
        let mut waiting = self.waiting.lock();
        // Queueing later notifications would hide the gap.
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
    /// Waits for events and returns all since the last call. The future may be dropped and requested again.
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

    /// Listens to a channel. Resolves once the server has confirmed it.
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
        // After a timeout the listener is dropped here.
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

    /// Delivers a notification to the listeners of a channel.
    fn deliver(&self, channel: &str, payload: &str) {
        let state = self.state.lock();
        for place in state.channels.get(channel).into_iter().flatten() {
            place.inbox.put(payload);
        }
    }

    /// The server listens to these channels on a new connection: earlier listeners may have missed notifications.
    fn begun(&self, channels: &[Arc<str>]) {
        let mut state = self.state.lock();
        for channel in channels {
            for place in state.channels.get_mut(channel).into_iter().flatten() {
                match place.begun.take() {
                    // A caller that has timed out is about to drop its listener.
                    Some(begun) => drop(begun.send(Ok(()))),
                    None => place.inbox.lose(),
                }
            }
        }
    }

    /// Notifies new listeners of channels that the server already listens to.
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

    /// Listening is impossible now: reports the error to new listeners and removes them.
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

    /// The channels with listeners.
    fn channels(&self) -> HashSet<Arc<str>> {
        self.state.lock().channels.keys().cloned().collect()
    }

    /// Ends the thread's service if there are no listeners; false if there are.
    fn end_service(&self) -> bool {
        let mut state = self.state.lock();
        let ends = state.channels.is_empty();
        if ends {
            state.is_served = false;
        }
        ends
    }
}
