//! Pools across machines, over NATS. A worker host runs a pool and announces it; a front end attaches each host that it hears of to its own
//! pool, as a worker. What front end and host then say to each other are the frames of the worker protocol, which messages carry in order.
//!
//! Everything here runs on one thread with its own connection to NATS. It takes jobs of a host's pool through its own mailbox; other threads
//! never wait for it.

#![forbid(unsafe_code)]

mod announcement;
mod connection;
mod front;
mod host;
mod jetstream;
mod job;
mod jobs;
mod options;
mod session;
mod transfer;

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    rc::Rc,
    sync::{Arc, OnceLock},
    thread,
};

use async_nats::Client;
use forebay_pool::{Limits, LocalMailbox, Mailboxes, Pool, abort_on_panic};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot, watch},
    task::{JoinSet, LocalSet, spawn_local},
    time::{Instant, error::Elapsed, timeout_at},
};

use self::{
    connection::{Connection, State},
    host::{Host, Served},
    jetstream::JetStream,
};
pub use self::{
    jobs::ClusterJobs,
    options::{NatsServers, Options},
};

/// The process cannot take part in the cluster.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The credentials cannot be read.
    #[error("`{}` (cluster.credentials) has no credentials of a user of NATS, its JWT and its seed", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The thread cannot be started.
    #[error("cannot start the thread of the cluster")]
    Thread(#[from] io::Error),
}

/// The thread that speaks with NATS. It ends with this handle.
#[derive(Debug)]
pub struct Cluster {
    orders: mpsc::UnboundedSender<Order>,
    connection: watch::Receiver<State>,
    client: Arc<OnceLock<Client>>,
}

#[derive(Debug)]
enum Order {
    /// Attach hosts to this pool until it has stopped.
    Attach(Pool),
    /// Let front ends use this pool, in the place of an earlier one of its name.
    Serve(Served),
    /// Finish what front ends have asked for, accept no more, and say so then. The process waits until this time.
    Drain(Instant, oneshot::Sender<()>),
}

impl Cluster {
    /// Starts the thread, which connects in the background. A process that serves pools has a mailbox of this index for the thread.
    pub fn start(options: Options, mailbox: Option<(Arc<Mailboxes>, usize)>) -> Result<Self, StartError> {
        let settings = connection::settings(&options)?;
        let (orders, ordered) = mpsc::unbounded_channel();
        let (sender, connection) = watch::channel(State::new(&options));
        let client = Arc::new(OnceLock::new());
        let opened = Arc::clone(&client);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        thread::Builder::new().name("cluster".into()).spawn(move || {
            LocalSet::new().block_on(&runtime, async {
                let mailbox = mailbox.map(|(all, index)| LocalMailbox::open(&all, index));
                let connection = Connection::open(&options, settings, sender).await;
                opened.get_or_init(|| connection.client.clone());
                run(connection, mailbox, ordered).await;
            });
        })?;
        Ok(Self {
            orders,
            connection,
            client,
        })
    }

    /// Durable jobs of this cluster, by its name, in so many copies. The runtime has time enabled; its threads may wait for the network.
    pub fn jobs(&self, cluster: &str, replicas: usize, runtime: Handle) -> Arc<ClusterJobs> {
        ClusterJobs::start(JetStream {
            cluster: cluster.to_owned(),
            replicas,
            client: Arc::clone(&self.client),
            connection: self.connection.clone(),
            runtime,
            context: OnceLock::new(),
            bucket: Mutex::default(),
            queues: Mutex::default(),
            used: Mutex::default(),
        })
    }

    /// Why there is no connection to NATS, if there is none.
    pub fn absence(&self) -> Option<String> {
        self.connection.borrow().absence.clone()
    }

    /// Attaches hosts to a pool, which is [`remote`](forebay_pool::Options::remote), until it has stopped.
    pub fn attach_hosts(&self, pool: Pool) {
        self.order(Order::Attach(pool));
    }

    /// Lets front ends use this pool, in the place of an earlier one of its name.
    ///
    /// # Panics
    /// On its thread, if the thread was started without a mailbox.
    pub fn serve(&self, pool: Pool, limits: Limits) {
        self.order(Order::Serve(Served { pool, limits }));
    }

    /// Accepts no more jobs from front ends, and waits until they know and have got everything that they had asked for; the error is that the
    /// deadline has passed before.
    pub async fn drain(&self, deadline: Instant) -> Result<(), Elapsed> {
        let (done, is_done) = oneshot::channel();
        self.order(Order::Drain(deadline, done));
        // The thread ends only with this handle.
        timeout_at(deadline, is_done).await.map(drop)
    }

    fn order(&self, order: Order) {
        self.orders
            .send(order)
            .expect("the thread lives as long as its handle");
    }
}

async fn run(
    connection: Connection,
    mailbox: Option<Rc<LocalMailbox>>,
    mut orders: mpsc::UnboundedReceiver<Order>,
) {
    let draining = watch::Sender::new(None);
    let host = mailbox.map(|mailbox| Rc::new(Host::new(mailbox, draining.subscribe())));
    let mut served = HashMap::<String, watch::Sender<Served>>::new();
    let mut serving = JoinSet::new();
    let mut drained: Option<oneshot::Sender<()>> = None;
    loop {
        if serving.is_empty()
            && let Some(done) = drained.take()
        {
            // The caller may have given up.
            let _ = done.send(());
        }
        let order = tokio::select! {
            order = orders.recv() => order,
            Some(ended) = serving.join_next() => {
                ended.expect("a panic ends the process");
                continue;
            }
        };
        match order {
            None => return,
            Some(Order::Attach(pool)) => {
                let attaching = front::run(pool, connection.clone());
                drop(spawn_local(abort_on_panic("front end of a pool", attaching)));
            }
            Some(Order::Serve(new)) => match served.get(new.pool.name()) {
                Some(before) => drop(before.send_replace(new)),
                None => {
                    let host = host
                        .clone()
                        .expect("a process that serves pools has a mailbox here");
                    let name = new.pool.name().to_owned();
                    let (sender, receiver) = watch::channel(new);
                    served.insert(name, sender);
                    let running = host::run(host, receiver, connection.clone());
                    serving.spawn_local(abort_on_panic("host of a pool", running));
                }
            },
            Some(Order::Drain(deadline, done)) => {
                draining.send_replace(Some(deadline));
                drained = Some(done);
            }
        }
    }
}
