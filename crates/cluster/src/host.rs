//! The host's side: announces a pool, and serves the front ends that attach it.

use std::{
    collections::HashMap,
    fs,
    rc::Rc,
    time::{Duration, Instant},
};

use async_nats::Message;
use forebay_pool::{Limits, LocalMailbox, Pool};
use futures_util::StreamExt;
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time::sleep_until,
};

use crate::{
    announcement::{Announcement, INTERVAL, TRY_INTERVAL, random_id},
    connection::Connection,
    session::Session,
    transfer::{LinkEnd, Receiver, ReplyTo, Sender},
};

/// Shortest interval between two announcements.
const INTERVAL_MIN: Duration = Duration::from_millis(50);
/// A host that drains for a shorter time does not wait for a successor.
const SUCCESSION_MIN: Duration = Duration::from_secs(1);
/// Maximum number of front ends that use a pool at a time.
const FRONTS_MAX: usize = 1_024;

/// This process as a host.
#[derive(Debug)]
pub(crate) struct Host {
    id: String,
    name: String,
    pub(crate) mailbox: Rc<LocalMailbox>,
    /// Once it drains: when it ends at the latest.
    draining: watch::Receiver<Option<tokio::time::Instant>>,
}

/// A pool that front ends use.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) pool: Pool,
    /// The limits of its jobs.
    pub(crate) limits: Limits,
}

impl Host {
    pub(crate) fn new(
        mailbox: Rc<LocalMailbox>,
        draining: watch::Receiver<Option<tokio::time::Instant>>,
    ) -> Self {
        let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            id: random_id(),
            name: name.trim().to_owned(),
            mailbox,
            draining,
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.borrow().is_some()
    }

    async fn drains(&self) {
        // The thread keeps the sender.
        let _ = self.draining.clone().wait_for(Option::is_some).await;
    }

    /// Whether it ends so soon that no successor can be waited for.
    fn ends_soon(&self) -> bool {
        let soon = tokio::time::Instant::now() + SUCCESSION_MIN;
        self.draining.borrow().is_some_and(|deadline| deadline < soon)
    }
}

/// Serves a pool until the host has drained.
pub(crate) async fn run(host: Rc<Host>, served: watch::Receiver<Served>, mut connection: Connection) {
    loop {
        let number = tokio::select! {
            number = connection.connected() => number,
            // Without a connection there is nothing to finish.
            () = host.drains() => return,
        };
        let mut watched = connection.clone();
        tokio::select! {
            // The jobs of all front ends are cancelled.
            () = watched.lost(number) => {}
            () = Serving::new(&host, &served, &connection).run() => return,
        }
    }
}

/// A pool while there is a connection.
struct Serving<'a> {
    host: &'a Rc<Host>,
    served: &'a watch::Receiver<Served>,
    connection: &'a Connection,
    pool: String,
    /// By the names of links.
    sessions: HashMap<String, Session>,
    /// The tasks that send their frames.
    senders: JoinSet<()>,
    /// Notified when the room or a session may have changed.
    changed: Rc<Notify>,
    announced: Announcement,
    announced_at: Instant,
    /// Whether front ends are told that the host drains. Until then it only has no room, so that jobs wait for a successor that has just
    /// announced itself, if there is time for that.
    is_leaving: bool,
}

impl<'a> Serving<'a> {
    fn new(host: &'a Rc<Host>, served: &'a watch::Receiver<Served>, connection: &'a Connection) -> Self {
        Self {
            host,
            served,
            connection,
            pool: served.borrow().pool.name().to_owned(),
            sessions: HashMap::new(),
            senders: JoinSet::new(),
            changed: Rc::default(),
            announced: Announcement::new(&host.id, &host.name),
            announced_at: Instant::now(),
            is_leaving: false,
        }
    }

    /// Serves until the host has drained and all front ends know.
    async fn run(mut self) {
        let own = self
            .connection
            .subject(&self.pool, &format!("host.{}.*", self.host.id));
        let mut incoming = match self.connection.client.subscribe(own).await {
            Ok(incoming) => incoming,
            Err(error) => {
                tracing::error!(target: "forebay::cluster", pool = self.pool, "cannot subscribe to jobs: {error}");
                return self.host.drains().await;
            }
        };
        self.announce().await;
        let mut try_at = Instant::now() + TRY_INTERVAL;
        let mut drains_since = None;
        // Set when something has changed that front ends may have to know before the next regular announcement.
        let mut is_due = false;
        loop {
            let pause = if is_due { INTERVAL_MIN } else { INTERVAL };
            tokio::select! {
                biased;
                () = sleep_until((self.announced_at + pause).into()) => {
                    self.is_leaving |= drains_since.is_some_and(|since: Instant| since.elapsed() >= INTERVAL);
                    if !is_due || self.is_news() {
                        self.announce().await;
                    }
                    is_due = false;
                    if Instant::now() >= try_at {
                        try_at = Instant::now() + TRY_INTERVAL;
                        self.sessions.values().for_each(Session::try_front);
                    }
                }
                message = incoming.next() => match message {
                    Some(message) => self.receive(&message).await,
                    None => return,
                },
                () = self.changed.notified() => is_due |= self.is_news(),
                Some(_) = self.senders.join_next() => {}
                () = self.host.drains(), if drains_since.is_none() => {
                    drains_since = Some(Instant::now());
                    self.is_leaving = self.host.ends_soon();
                    self.served.borrow().pool.end_connections();
                    self.announce().await;
                }
            }
            self.sessions.retain(|_, session| !session.is_over());
            if drains_since.is_some() && self.sessions.is_empty() {
                return self.leave().await;
            }
        }
    }

    fn room(&self) -> usize {
        if self.host.is_draining() {
            return 0;
        }
        self.served.borrow().pool.room().1
    }

    /// Whether the room has changed so much that front ends should know at once.
    fn is_news(&self) -> bool {
        let (before, now) = (self.announced.room, self.room());
        (now == 0) != (before == 0) || now > 2 * before
    }

    async fn announce(&mut self) {
        self.announced.room = self.room();
        self.announced.draining = self.is_leaving;
        self.announced.set_failing(&self.served.borrow().pool.readiness());
        self.announced_at = Instant::now();
        let payload = serde_json::to_vec(&self.announced).expect("an announcement becomes JSON");
        let subject = self.connection.subject(&self.pool, "hosts");
        if let Err(error) = self.connection.client.publish(subject, payload.into()).await {
            tracing::warn!(target: "forebay::cluster", pool = self.pool, "an announcement was not sent: {error}");
        }
    }

    /// Waits until everything is sent, the end of each link last.
    async fn leave(mut self) {
        while self.senders.join_next().await.is_some() {}
        // If the connection is lost now, front ends notice that the host is silent.
        let _ = self.connection.client.flush().await;
    }

    /// Takes a message of a front end. Its subject ends with the name of the link.
    async fn receive(&mut self, message: &Message) {
        let link = message.subject.rsplit('.').next().unwrap_or_default();
        if !self.sessions.contains_key(link) {
            let sender = Sender {
                client: self.connection.client.clone(),
                subject: self
                    .connection
                    .subject(&self.pool, &format!("front.{link}.frames")),
                reply: ReplyTo::Subject(message.subject.clone()),
                next: 0,
            };
            match Receiver::default().take(message) {
                Ok(_) if !self.host.is_draining() && self.sessions.len() < FRONTS_MAX => {}
                // The first message was lost, or the front end does not know that the link is over.
                Ok(_) | Err(LinkEnd::Gap { .. }) => return sender.end().await,
                Err(_) => return,
            }
            tracing::info!(target: "forebay::cluster", pool = self.pool, link, "front end attached");
            let session = Session::new(self.host, self.changed.clone(), sender, &mut self.senders);
            self.sessions.insert(link.to_owned(), session);
        }
        let session = self.sessions.get_mut(link).expect("it was there or was inserted");
        if let Err(end) = session.receive(message, &self.served.borrow()) {
            if matches!(end, LinkEnd::Ended | LinkEnd::NoResponders { .. }) {
                tracing::info!(target: "forebay::cluster", pool = self.pool, link, "front end detached: {end}");
            } else {
                tracing::warn!(target: "forebay::cluster", pool = self.pool, link, "front end detached: {end}");
            }
            self.sessions.remove(link);
        }
    }
}
