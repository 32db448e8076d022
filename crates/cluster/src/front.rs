//! The front end's side: attaches the hosts that announce themselves to a pool, and carries the frames of each.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    convert::Infallible,
};

use forebay_pool::{HOSTS_MAX, Pool, abort_on_panic};
use forebay_wire::{FrameType, Split, split_frame};
use futures_util::StreamExt;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::{
    announcement::{Announcement, PATIENCE, SILENCE_MAX, TRY_INTERVAL, random_id},
    connection::Connection,
    transfer::{LinkEnd, Receiver, ReplyTo, Sender},
};

/// Number of messages whose jobs are remembered: more than are under way when the server reports that nobody receives the first of them.
const SENT_MESSAGES_MAX: usize = 1_024;

/// Attaches hosts to a pool until it has stopped.
pub(crate) async fn run(pool: Pool, connection: Connection) {
    tokio::select! {
        () = pool.stopped() => {}
        never = follow(&pool, connection) => match never {},
    }
}

async fn follow(pool: &Pool, mut connection: Connection) -> Infallible {
    loop {
        while let Some(absence) = connection.absence() {
            pool.set_absence(&absence);
            connection.changed().await;
        }
        let number = connection.connected().await;
        pool.set_absence("none announces itself over NATS");
        let mut watched = connection.clone();
        tokio::select! {
            () = watched.lost(number) => {}
            () = attach_hosts(pool, &connection) => {}
        }
    }
}

/// Attaches each host that is heard. All are detached when this future is dropped.
async fn attach_hosts(pool: &Pool, connection: &Connection) {
    let subject = connection.subject(pool.name(), "hosts");
    let mut announcements = match connection.client.subscribe(subject).await {
        Ok(announcements) => announcements,
        Err(error) => {
            pool.set_absence(&format!(
                "this process cannot subscribe to announcements: {error}"
            ));
            return std::future::pending().await;
        }
    };
    let mut attached = HashMap::<String, watch::Sender<Announcement>>::new();
    let mut refused = HashSet::new();
    let mut links = JoinSet::new();
    loop {
        tokio::select! {
            message = announcements.next() => {
                let Some(message) = message else { return };
                let Some(announcement) = Announcement::read(&message.payload) else { continue };
                let id = announcement.id.clone();
                if let Some(known) = attached.get(&id) {
                    known.send_replace(announcement);
                } else if let Some(why) = announcement.incompatibility() {
                    if refused.len() < HOSTS_MAX && refused.insert(id) {
                        tracing::warn!(target: "forebay::cluster", pool = pool.name(), "a host is not used: {why}");
                        pool.set_absence(&why);
                    }
                } else if let Some(why) = &announcement.failing {
                    pool.set_absence(&format!("the workers of host {} do not start: {why}", announcement.name));
                } else if !announcement.draining && pool.takes_hosts() {
                    let (sender, receiver) = watch::channel(announcement);
                    attached.insert(id.clone(), sender);
                    let (pool, connection) = (pool.clone(), connection.clone());
                    links.spawn_local(async move {
                        abort_on_panic("link of a host", attach(&pool, &connection, receiver)).await;
                        id
                    });
                }
            }
            Some(ended) = links.join_next() => {
                attached.remove(&ended.expect("a panic ends the process"));
            }
        }
    }
}

async fn attach(pool: &Pool, connection: &Connection, mut heard: watch::Receiver<Announcement>) {
    let (id, name) = {
        let announcement = heard.borrow_and_update();
        (announcement.id.clone(), announcement.name.clone())
    };
    tracing::info!(target: "forebay::cluster", pool = pool.name(), host = name, id, "host attached");
    let why = carry(pool, connection, &id, &name, &mut heard).await;
    tracing::info!(target: "forebay::cluster", pool = pool.name(), host = name, id, "host detached: {why}");
}

/// Carries the frames of one host until its link ends.
async fn carry(
    pool: &Pool,
    connection: &Connection,
    id: &str,
    name: &str,
    heard: &mut watch::Receiver<Announcement>,
) -> LinkEnd {
    let link = random_id();
    let own = |end: &str| connection.subject(pool.name(), &format!("front.{link}{end}"));
    let mut incoming = match connection.client.subscribe(own(".*")).await {
        Ok(incoming) => incoming,
        Err(error) => return LinkEnd::Subscribe(error.to_string()),
    };
    let mut sender = Sender {
        client: connection.client.clone(),
        subject: connection.subject(pool.name(), &format!("host.{id}.{link}")),
        reply: ReplyTo::Numbered(own("").to_string()),
        next: 0,
    };
    let mut receiver = Receiver::default();
    let (outgoing, mut frames) = mpsc::unbounded_channel();
    let Some(mut host) = pool.attach(name, outgoing) else {
        return LinkEnd::GivenUp;
    };
    host.announced(heard.borrow().room, false);
    let mut patience = std::pin::pin!(sleep_until(Instant::now() + SILENCE_MAX));
    let mut is_silent = false;
    let mut sent = SentJobs::default();
    let mut sent_at = Instant::now();
    let mut batch = Vec::new();
    let end = loop {
        tokio::select! {
            message = incoming.next() => {
                let Some(message) = message else { break LinkEnd::Ended };
                match receiver.take(&message) {
                    Ok(bytes) if host.receive(&bytes) => {}
                    Ok(_) => break LinkEnd::Protocol("the log says how".to_owned()),
                    Err(end) => break end,
                }
            }
            frame = frames.recv() => {
                let Some(Some(frame)) = frame else { break LinkEnd::GivenUp };
                batch.extend_from_slice(&frame);
                let mut is_given_up = false;
                while let Ok(more) = frames.try_recv() {
                    match more {
                        Some(frame) => batch.extend_from_slice(&frame),
                        None => is_given_up = true,
                    }
                }
                sent.add(&batch, sender.next, sender.piece_max());
                sender.send(&batch).await;
                sent_at = Instant::now();
                batch.clear();
                if is_given_up {
                    break LinkEnd::GivenUp;
                }
            }
            changed = heard.changed() => {
                if changed.is_err() {
                    break LinkEnd::GivenUp;
                }
                let announcement = heard.borrow_and_update().clone();
                host.announced(announcement.room, announcement.takes_no_jobs());
                is_silent = false;
                patience.as_mut().reset(Instant::now() + SILENCE_MAX);
                // If the latest message was lost, the host learns it from the next one.
                if sent_at.elapsed() >= TRY_INTERVAL && host.is_awaited() {
                    sender.send(&[]).await;
                    sent_at = Instant::now();
                }
            }
            () = &mut patience => {
                if is_silent {
                    break LinkEnd::Silent;
                }
                is_silent = true;
                patience.as_mut().reset(Instant::now() + PATIENCE);
                host.announced(0, false);
                // The server reports if it is gone.
                sender.send(&[]).await;
            }
        }
    };
    if let LinkEnd::NoResponders { reply } = &end {
        // A job that was not sent was not received either.
        let unsent: Vec<u8> = std::iter::from_fn(|| frames.try_recv().ok())
            .flatten()
            .flatten()
            .collect();
        sent.add(&unsent, sender.next, sender.piece_max());
        let first = reply.parse().ok().and_then(|number| sent.first_since(number));
        if let Some(job) = first {
            host.has_not_got(job);
        }
    }
    drop(host);
    sender.end().await;
    end
}

/// The jobs of the latest messages, to know which ones a host that is gone has never got.
#[derive(Debug, Default)]
struct SentJobs {
    /// The number of a message that completes jobs, and the first of those.
    messages: VecDeque<(u64, u32)>,
}

impl SentJobs {
    /// Adds frames that messages from this number on carry in pieces of this length.
    fn add(&mut self, frames: &[u8], number: u64, piece_max: usize) {
        let mut at = 0;
        while let Ok(Split::Whole { frame, used }) = split_frame(&frames[at..]) {
            at += used;
            let message = number + ((at - 1) / piece_max) as u64;
            let is_first = self.messages.back().is_none_or(|&(last, _)| last < message);
            if frame.header.kind == FrameType::Request && is_first {
                self.messages.push_back((message, frame.header.job));
            }
        }
        let surplus = self.messages.len().saturating_sub(SENT_MESSAGES_MAX);
        self.messages.drain(..surplus);
    }

    /// The first job that was not complete before this message.
    fn first_since(&self, number: u64) -> Option<u32> {
        let message = self.messages.iter().find(|(message, _)| *message >= number)?;
        Some(message.1)
    }
}

#[cfg(test)]
mod tests {
    use forebay_wire::{Header, put_frame};

    use super::*;

    #[test]
    fn a_job_is_lost_with_the_message_that_completes_it() {
        let frame = |kind, job, bytes: usize| {
            let header = Header {
                kind,
                flags: 0,
                generation: 1,
                job,
                slot: 0,
            };
            let mut frame = Vec::new();
            put_frame(&mut frame, &header, &vec![0; bytes]);
            frame
        };
        let mut sent = SentJobs::default();
        // 100 bytes in messages 5 and 6, then 50 bytes in each of 7 and 8.
        let two = [frame(FrameType::Request, 1, 34), frame(FrameType::Request, 2, 34)].concat();
        sent.add(&two, 5, 60);
        sent.add(&frame(FrameType::Window, 1, 34), 7, 60);
        sent.add(&frame(FrameType::Request, 3, 34), 8, 60);
        let first = [4, 5, 6, 7, 8, 9].map(|number| sent.first_since(number));
        assert_eq!(first, [Some(1), Some(1), Some(2), Some(3), Some(3), None]);
        for number in 9..9 + 2 * SENT_MESSAGES_MAX as u64 {
            sent.add(&frame(FrameType::Request, number as u32, 0), number, 60);
        }
        assert_eq!(sent.messages.len(), SENT_MESSAGES_MAX);
    }
}
