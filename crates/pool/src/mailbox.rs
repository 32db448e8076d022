//! Delivery of answers to waiting tasks. Each server thread has a mailbox: a local part with the waiting tasks, and a shared part for
//! deliveries from other threads. A delivery on the same thread takes no lock.

use std::{
    cell::RefCell,
    collections::VecDeque,
    rc::Rc,
    sync::{Arc, OnceLock},
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::Notify;

use forebay_wire::HEADER_BYTES;

use crate::{
    Delivery, Message, PUBLISHED_BYTES_MAX, abort_on_panic::abort_on_panic, delivery::ReplyTo, link::Link,
    reader::Reader,
};

/// The mailboxes of all server threads.
#[derive(Debug)]
pub struct Mailboxes {
    shared: Box<[Shared]>,
    /// The threads that read the links of workers.
    readers: std::ops::Range<usize>,
    /// The threads that take work.
    takers: usize,
    /// The thread that gets the next worker's link (round robin).
    next_reader: std::sync::atomic::AtomicUsize,
    /// The thread that gets the next piece of work (round robin).
    next_work: std::sync::atomic::AtomicUsize,
}

#[derive(Debug, Default)]
struct Shared {
    items: Mutex<Vec<Item>>,
    arrived: Notify,
    opened: OnceLock<()>,
}

#[derive(Debug)]
enum Item {
    Delivery(ReplyTo, Delivery),
    /// A worker's link that this thread reads from now on.
    Adopt(Box<Reader>),
    /// Work for this thread.
    Work(Work),
}

/// A piece of work for a server thread, which is given its mailbox.
pub(crate) struct Work(pub(crate) Box<dyn FnOnce(Rc<LocalMailbox>) + Send>);

impl std::fmt::Debug for Work {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Work")
    }
}

impl Mailboxes {
    /// Creates mailboxes for this many threads.
    pub fn new(threads: usize) -> Arc<Self> {
        assert!(threads > 0, "answers need a thread to arrive at");
        Arc::new(Self {
            shared: (0..threads).map(|_| Shared::default()).collect(),
            readers: 0..threads,
            takers: threads,
            next_reader: 0.into(),
            next_work: 0.into(),
        })
    }

    /// Creates mailboxes for this many threads and, behind theirs, for another one, which reads the links of all workers: the thread that
    /// submits almost all jobs of a worker host.
    pub fn with_reader(threads: usize) -> Arc<Self> {
        let all = Self::new(threads + 1);
        let all = Arc::into_inner(all).expect("nobody else has it yet");
        Arc::new(Self {
            readers: threads..threads + 1,
            takers: threads,
            ..all
        })
    }

    /// Assigns a link to one of the threads, in turn.
    pub(crate) fn adopt(&self, reader: Reader) {
        let turn = self
            .next_reader
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.post(
            self.readers.start + turn % self.readers.len(),
            std::iter::once(Item::Adopt(Box::new(reader))),
        );
    }

    /// Assigns work to one of the threads, in turn.
    pub(crate) fn hand(&self, work: Work) {
        let turn = self.next_work.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.post(turn % self.takers, std::iter::once(Item::Work(work)));
    }

    pub(crate) fn deliver(&self, deliveries: impl IntoIterator<Item = (ReplyTo, Delivery)>) {
        for (to, delivery) in deliveries {
            self.post(to.mailbox as usize, std::iter::once(Item::Delivery(to, delivery)));
        }
    }

    fn post(&self, to: usize, new: impl Iterator<Item = Item>) {
        let shared = &self.shared[to];
        let first = {
            let mut items = shared.items.lock();
            let first = items.is_empty();
            items.extend(new);
            first
        };
        // The mailbox is always emptied completely, so one notification is enough until then.
        if first {
            shared.arrived.notify_one();
        }
    }
}

/// The local part of a thread's mailbox.
#[derive(Debug)]
pub struct LocalMailbox {
    index: u32,
    all: Arc<Mailboxes>,
    waiters: RefCell<Slab<Waiter>>,
    nonces: std::cell::Cell<u32>,
    /// Links with unwritten frames. They are written together once the thread has nothing else to run.
    unwritten: RefCell<Vec<Arc<Link>>>,
    write: Notify,
}

#[derive(Debug)]
struct Waiter {
    nonce: u32,
    first: Option<Delivery>,
    more: VecDeque<Delivery>,
    /// Sum of the windows that were delivered but not yet taken. It bounds the memory, however many windows a worker sends.
    window: u32,
    /// Bytes of published messages that have not been taken.
    published: usize,
    /// Whether published messages were dropped, because too many bytes of them wait.
    has_overflowed: bool,
    waker: Option<Waker>,
}

impl LocalMailbox {
    /// Opens a thread's mailbox and starts its tasks on the current [`tokio::task::LocalSet`].
    ///
    /// # Panics
    /// If the mailbox does not exist or is open already, or outside of a local set.
    pub fn open(all: &Arc<Mailboxes>, index: usize) -> Rc<Self> {
        assert!(
            all.shared[index].opened.set(()).is_ok(),
            "a mailbox has one owner"
        );
        let local = Rc::new(Self {
            index: index as u32,
            all: all.clone(),
            waiters: RefCell::default(),
            nonces: std::cell::Cell::new(0),
            unwritten: RefCell::default(),
            write: Notify::new(),
        });
        tokio::task::spawn_local(abort_on_panic(
            "mailbox of a thread",
            Self::receive(local.clone()),
        ));
        tokio::task::spawn_local(abort_on_panic(
            "writer of a thread's links",
            Self::write(local.clone()),
        ));
        local
    }

    async fn receive(self: Rc<Self>) {
        let mut taken = Vec::new();
        loop {
            self.all.shared[self.index as usize].arrived.notified().await;
            std::mem::swap(
                &mut taken,
                &mut *self.all.shared[self.index as usize].items.lock(),
            );
            for item in taken.drain(..) {
                match item {
                    Item::Delivery(to, delivery) => self.deliver(to, delivery),
                    Item::Work(work) => (work.0)(self.clone()),
                    Item::Adopt(reader) => drop(tokio::task::spawn_local(abort_on_panic(
                        "reader of a worker",
                        reader.run(self.clone()),
                    ))),
                }
            }
        }
    }

    /// Runs after the tasks that one poll of the sockets has woken, so that one write carries all their frames.
    async fn write(self: Rc<Self>) {
        let mut links = Vec::new();
        loop {
            self.write.notified().await;
            // Poll the sockets once more first: what has arrived meanwhile joins the batch.
            tokio::task::yield_now().await;
            std::mem::swap(&mut links, &mut *self.unwritten.borrow_mut());
            for link in links.drain(..) {
                link.flush();
            }
        }
    }

    pub(crate) fn write_later(&self, link: Arc<Link>) {
        let mut unwritten = self.unwritten.borrow_mut();
        if unwritten.is_empty() {
            self.write.notify_one();
        }
        unwritten.push(link);
    }

    /// Whether this thread is already going to write the link.
    pub(crate) fn will_write(&self, link: &Arc<Link>) -> bool {
        self.unwritten.borrow().iter().any(|due| Arc::ptr_eq(due, link))
    }

    pub(crate) fn all(&self) -> &Arc<Mailboxes> {
        &self.all
    }

    pub(crate) fn owns(&self, to: ReplyTo) -> bool {
        to.mailbox == self.index
    }

    /// Registers a waiting task and returns its address.
    pub(crate) fn wait(&self) -> ReplyTo {
        let nonce = self.nonces.get().wrapping_add(1);
        self.nonces.set(nonce);
        let waiter = Waiter {
            nonce,
            first: None,
            more: VecDeque::new(),
            window: 0,
            published: 0,
            has_overflowed: false,
            waker: None,
        };
        ReplyTo {
            mailbox: self.index,
            waiter: self.waiters.borrow_mut().insert(waiter) as u32,
            nonce,
        }
    }

    /// Unregisters a waiting task.
    pub(crate) fn forget(&self, place: ReplyTo) {
        self.waiters.borrow_mut().remove(place.waiter as usize);
    }

    /// Delivers to a waiting task. The delivery is dropped if the task no longer waits.
    pub(crate) fn deliver(&self, to: ReplyTo, delivery: Delivery) {
        let mut waiters = self.waiters.borrow_mut();
        let Some(waiter) = waiters
            .get_mut(to.waiter as usize)
            .filter(|w| w.nonce == to.nonce)
        else {
            return;
        };
        if let Delivery::Message(Message {
            bytes,
            is_published: true,
            ..
        }) = &delivery
        {
            let published = waiter.published + bytes.len() + HEADER_BYTES;
            waiter.has_overflowed |= published > PUBLISHED_BYTES_MAX;
            if !waiter.has_overflowed {
                waiter.published = published;
            }
        }
        match delivery {
            Delivery::Message(Message {
                is_published: true, ..
            }) if waiter.has_overflowed => {}
            Delivery::Window(bytes) => waiter.window = waiter.window.saturating_add(bytes),
            delivery if waiter.first.is_none() && waiter.more.is_empty() => waiter.first = Some(delivery),
            delivery => waiter.more.push_back(delivery),
        }
        let waker = waiter.waker.take();
        drop(waiters);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Polls until published messages have been dropped, because the waiting task does not take them.
    pub(crate) fn poll_overflow(&self, place: ReplyTo, cx: &mut Context<'_>) -> Poll<()> {
        let mut waiters = self.waiters.borrow_mut();
        let waiter = waiters
            .get_mut(place.waiter as usize)
            .expect("a place is kept while it is polled");
        if waiter.has_overflowed {
            return Poll::Ready(());
        }
        waiter.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Polls for the next delivery. Windows are summed up and come first.
    pub(crate) fn poll(&self, place: ReplyTo, cx: &mut Context<'_>) -> Poll<Delivery> {
        let mut waiters = self.waiters.borrow_mut();
        let waiter = waiters
            .get_mut(place.waiter as usize)
            .expect("a place is kept while it is polled");
        if waiter.window > 0 {
            return Poll::Ready(Delivery::Window(std::mem::take(&mut waiter.window)));
        }
        if waiter.has_overflowed {
            return Poll::Ready(Delivery::Overflow);
        }
        if let Some(delivery) = waiter.first.take().or_else(|| waiter.more.pop_front()) {
            if let Delivery::Message(Message {
                bytes,
                is_published: true,
                ..
            }) = &delivery
            {
                waiter.published -= bytes.len() + HEADER_BYTES;
            }
            return Poll::Ready(delivery);
        }
        match &mut waiter.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::task::LocalSet;

    use super::*;
    use crate::Failure;

    /// A distinguishable delivery.
    fn chunk(number: u32) -> Delivery {
        Delivery::Chunk {
            bytes: number.to_le_bytes().to_vec().into(),
            end: false,
            commit: 0,
        }
    }

    async fn next(mailbox: &LocalMailbox, place: ReplyTo) -> u32 {
        match poll_fn(|cx| mailbox.poll(place, cx)).await {
            Delivery::Chunk { bytes, .. } => u32::from_le_bytes(bytes[..].try_into().unwrap()),
            other => panic!("a chunk was delivered, not {other:?}"),
        }
    }

    /// Runs `work` the way a server thread does, until it is done.
    fn thread<F: Future>(work: impl FnOnce() -> F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        LocalSet::new().block_on(&runtime, async { work().await })
    }

    #[test]
    fn what_many_threads_deliver_arrives_once_and_in_each_ones_order() {
        const THREADS: u32 = 4;
        const EACH: u32 = 5_000;
        let all = Mailboxes::new(1);
        let places = std::sync::mpsc::channel::<ReplyTo>();
        std::thread::scope(|scope| {
            let (sender, receiver) = places;
            let senders = scope.spawn({
                let all = &all;
                move || {
                    let place = receiver.recv().unwrap();
                    std::thread::scope(|scope| {
                        for thread in 0..THREADS {
                            scope.spawn(move || {
                                for turn in 0..EACH {
                                    all.deliver([(place, chunk(thread * EACH + turn))]);
                                }
                            });
                        }
                    });
                }
            });
            let mut received = thread(|| async {
                let mailbox = LocalMailbox::open(&all, 0);
                let place = mailbox.wait();
                sender.send(place).unwrap();
                let mut received = Vec::new();
                for _ in 0..THREADS * EACH {
                    received.push(next(&mailbox, place).await);
                }
                mailbox.forget(place);
                received
            });
            senders.join().unwrap();
            for thread in 0..THREADS {
                assert!(
                    received
                        .iter()
                        .filter(|&&number| number / EACH == thread)
                        .is_sorted()
                );
            }
            received.sort_unstable();
            assert_eq!(received, (0..THREADS * EACH).collect::<Vec<_>>());
        });
    }

    #[test]
    fn nobody_gets_what_was_meant_for_an_earlier_waiter_at_the_same_place() {
        let all = Mailboxes::new(1);
        thread(|| async {
            let mailbox = LocalMailbox::open(&all, 0);
            let gone = mailbox.wait();
            mailbox.forget(gone);
            let here = mailbox.wait();
            assert_eq!(here.waiter, gone.waiter, "the place is used again");
            mailbox.deliver(gone, Delivery::Failed(Failure::DeadlinePassed));
            all.deliver([
                (gone, Delivery::Failed(Failure::DeadlinePassed)),
                (here, chunk(1)),
            ]);
            mailbox.deliver(here, chunk(0));
            assert_eq!([next(&mailbox, here).await, next(&mailbox, here).await], [0, 1]);
            mailbox.forget(here);
        });
    }

    #[test]
    fn windows_that_nobody_takes_are_added_up() {
        let all = Mailboxes::new(1);
        thread(|| async {
            let mailbox = LocalMailbox::open(&all, 0);
            let place = mailbox.wait();
            for _ in 0..10_000 {
                mailbox.deliver(place, Delivery::Window(0));
                mailbox.deliver(place, Delivery::Window(3));
            }
            mailbox.deliver(place, chunk(7));
            let first = poll_fn(|cx| mailbox.poll(place, cx)).await;
            assert!(matches!(first, Delivery::Window(30_000)), "{first:?}");
            assert_eq!(next(&mailbox, place).await, 7);
            for _ in 0..2 {
                mailbox.deliver(place, Delivery::Window(u32::MAX));
            }
            let most = poll_fn(|cx| mailbox.poll(place, cx)).await;
            assert!(matches!(most, Delivery::Window(u32::MAX)), "{most:?}");
            mailbox.forget(place);
        });
    }
}
