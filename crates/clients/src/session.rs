//! Executes operations: all runs of a thread share its connections, and each run owns the locks it has taken.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::HashMap,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{sync::mpsc, time::timeout};

use crate::{
    ClientError, Options,
    kafka::Producer,
    mail::Sender,
    operation::Operation,
    process,
    redis::{Lock, Pool},
};

/// Limit on the locks of one run, counting those it is still waiting for.
const LOCKS_MAX: usize = 1024;
/// Limit on the abandoned locks of a thread that wait to be released.
const LEFT_MAX: usize = 1024;

/// The clients of one thread.
#[derive(Debug)]
pub struct Clients {
    options: Arc<Options>,
    servers: RefCell<HashMap<String, Rc<Server>>>,
    senders: RefCell<HashMap<String, Rc<Sender>>>,
    producers: RefCell<HashMap<String, Rc<Producer>>>,
}

/// A Redis server with the locks that ended runs have left there.
#[derive(Debug)]
struct Server {
    name: String,
    pool: Rc<Pool>,
    /// Sends locks to the task that releases them.
    left: OnceCell<mpsc::Sender<HeldLock>>,
    /// Whether the log already reports that too many locks are waiting.
    is_told: Cell<bool>,
}

/// A lock that a run holds or is acquiring.
#[derive(Debug)]
struct HeldLock {
    lock: Lock,
    /// When it expires; `None` while it is being acquired.
    until: Option<Instant>,
}

impl HeldLock {
    /// The time until it expires; `None` if it has expired.
    fn rest(&self) -> Option<Duration> {
        let until = self.until.unwrap_or_else(|| self.lock.end_from_now());
        until
            .checked_duration_since(Instant::now())
            .filter(|rest| !rest.is_zero())
    }
}

/// The state of one run; when dropped, its locks are released.
#[derive(Debug)]
pub struct ClientSession {
    clients: Rc<Clients>,
    /// The run's deadline.
    deadline: Instant,
    locks: RefCell<Vec<(Rc<Server>, HeldLock)>>,
}

impl Clients {
    /// Creates the clients of a thread that may reach these targets.
    pub fn new(options: Arc<Options>) -> Rc<Self> {
        Rc::new(Self {
            options,
            servers: RefCell::default(),
            senders: RefCell::default(),
            producers: RefCell::default(),
        })
    }

    /// Creates the session of a run with this deadline.
    pub fn session(self: &Rc<Self>, deadline: Instant) -> ClientSession {
        ClientSession {
            clients: Rc::clone(self),
            deadline,
            locks: RefCell::default(),
        }
    }

    /// Returns the sender of a mail server, creating it on first use.
    fn mail(&self, name: Option<&str>) -> Result<Rc<Sender>, ClientError> {
        let (name, options) = self.options.mail(name)?;
        let mut senders = self.senders.borrow_mut();
        let sender = senders
            .entry(name.to_owned())
            .or_insert_with(|| Rc::new(Sender::new(name, options.clone())));
        Ok(Rc::clone(sender))
    }

    /// Returns the producer of a Kafka cluster, creating it on first use.
    fn kafka(&self, name: &str) -> Result<Rc<Producer>, ClientError> {
        let (name, options) = self.options.kafka(name)?;
        let mut producers = self.producers.borrow_mut();
        let producer = producers
            .entry(name.to_owned())
            .or_insert_with(|| Rc::new(Producer::new(name, options.clone())));
        Ok(Rc::clone(producer))
    }

    fn redis(&self, name: Option<&str>) -> Result<Rc<Server>, ClientError> {
        let (name, options) = self.options.redis(name)?;
        let mut servers = self.servers.borrow_mut();
        if let Some(server) = servers.get(name) {
            return Ok(Rc::clone(server));
        }
        let server = Rc::new(Server {
            name: name.to_owned(),
            pool: Rc::new(Pool::new(name, options.clone())),
            left: OnceCell::new(),
            is_told: Cell::new(false),
        });
        servers.insert(name.to_owned(), Rc::clone(&server));
        Ok(server)
    }
}

impl Server {
    /// Returns the queue of abandoned locks: a task of this thread releases them one by one and skips those that have expired.
    fn left(&self) -> &mpsc::Sender<HeldLock> {
        self.left.get_or_init(|| {
            let (sender, mut left) = mpsc::channel::<HeldLock>(LEFT_MAX);
            let pool = Rc::clone(&self.pool);
            tokio::task::spawn_local(async move {
                while let Some(held) = left.recv().await {
                    let Some(rest) = held.rest() else { continue };
                    // A lock that cannot be released expires, so later attempts are useless.
                    if let Ok(Err(error)) = timeout(rest, pool.unlock(&held.lock)).await {
                        tracing::warn!(target: "forebay::clients", "a lock stays until its time is over: {error}");
                    }
                }
            });
            sender
        })
    }

    /// Queues a lock for release if there is room. If the thread stops first, the lock expires.
    fn leave(&self, mut held: HeldLock) {
        let Some(left) = self.left.get() else { return };
        if held.rest().is_none() {
            return;
        }
        held.until.get_or_insert_with(|| held.lock.end_from_now());
        if left.capacity() == LEFT_MAX {
            self.is_told.set(false);
        }
        if let Err(mpsc::error::TrySendError::Full(_)) = left.try_send(held)
            && !self.is_told.replace(true)
        {
            tracing::warn!(
                target: "forebay::clients",
                "{LEFT_MAX} locks of Redis `{}` wait to be given back, as many as may: others stay until their time is over",
                self.name
            );
        }
    }
}

impl ClientSession {
    /// Executes an operation on a thread with a `LocalSet`; dropping the future cancels it. Returns `{"value": ...}` or `{"error": {"code", "message"}}`.
    pub async fn call(&self, operation: &[u8]) -> Vec<u8> {
        let outcome = match self.answer(operation).await {
            Ok(value) => json!({ "value": value }),
            Err(error) => json!({ "error": { "code": error.code(), "message": error.to_string() } }),
        };
        outcome.to_string().into_bytes()
    }

    async fn answer(&self, operation: &[u8]) -> Result<Value, ClientError> {
        let operation = serde_json::from_slice(operation).map_err(|error| ClientError::Operation {
            reason: error.to_string(),
        })?;
        match operation {
            Operation::Redis { source, command } => {
                let server = self.clients.redis(Some(&source))?;
                server.pool.run(&command).await
            }
            Operation::Lock {
                source,
                key,
                time_ms,
                wait_ms,
            } => {
                let server = self.clients.redis(source.as_deref())?;
                let lock = Lock::new(key, time_ms)?;
                server.left();
                // Before it is asked for: whatever becomes of that, it is given back.
                self.hold(&server, lock.clone())?;
                let taken = server.pool.lock(&lock, wait_ms).await;
                match taken {
                    Ok(false) => drop(self.take(lock.token())),
                    _ => self.ends(&lock),
                }
                Ok(taken?.then(|| lock.token().to_owned()).into())
            }
            Operation::Unlock { token } => match self.take(&token) {
                Some((server, held)) => server.pool.unlock(&held.lock).await.map(Value::from),
                None => Ok(false.into()),
            },
            Operation::S3 {
                source,
                method,
                object,
            } => {
                let (_, bucket) = self.clients.options.s3(source.as_deref())?;
                bucket.sign(&method, &object).map(|url| url.as_str().into())
            }
            Operation::Mail { source, message } => self.clients.mail(source.as_deref())?.send(&message).await,
            Operation::Kafka {
                source,
                topic,
                records,
            } => self.clients.kafka(&source)?.publish(&topic, records).await,
            Operation::Pool { pool, request } => {
                let pool = self.clients.options.pool(&pool)?;
                let answer = pool.answer(request, self.deadline).await?;
                Ok(json!({ "status": answer.status, "headers": answer.headers, "body": answer.body }))
            }
            Operation::Process {
                program,
                args,
                stdin,
                time_ms,
            } => process::run(&self.clients.options, &program, &args, stdin, time_ms).await,
        }
    }

    /// Records that a lock is being acquired.
    fn hold(&self, server: &Rc<Server>, lock: Lock) -> Result<(), ClientError> {
        let mut locks = self.locks.borrow_mut();
        if locks.len() >= LOCKS_MAX {
            locks.retain(|(_, held)| held.rest().is_some());
        }
        if locks.len() >= LOCKS_MAX {
            return Err(ClientError::Refused {
                what: format!("Redis `{}`", server.name),
                reason: format!(
                    "the run has asked for {LOCKS_MAX} locks that it has not given back, as many as it may"
                ),
            });
        }
        locks.push((Rc::clone(server), HeldLock { lock, until: None }));
        Ok(())
    }

    /// Records that a lock was acquired, and starts its expiry no later than now.
    fn ends(&self, lock: &Lock) {
        let mut locks = self.locks.borrow_mut();
        let of_it = locks
            .iter_mut()
            .rfind(|(_, held)| held.lock.token() == lock.token());
        if let Some((_, held)) = of_it {
            held.until = Some(lock.end_from_now());
        }
    }

    /// Removes a lock from those that are released when the run ends.
    fn take(&self, token: &str) -> Option<(Rc<Server>, HeldLock)> {
        let mut locks = self.locks.borrow_mut();
        let at = locks.iter().position(|(_, held)| held.lock.token() == token)?;
        Some(locks.swap_remove(at))
    }
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        for (server, held) in self.locks.take() {
            server.leave(held);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::{collections::BTreeMap, net::TcpListener};

    use super::*;
    use crate::RedisOptions;

    /// Creates clients of a server that accepts connections and never answers.
    fn clients(listener: &TcpListener) -> Rc<Clients> {
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let options = RedisOptions {
            url: url.parse().unwrap(),
            connections_max: 1,
            connect_timeout: Duration::from_hours(1),
            command_timeout: Duration::from_hours(1),
            reply_bytes_max: 1000,
        };
        Clients::new(Arc::new(Options {
            redis: vec!["silent".to_owned()],
            redis_servers: BTreeMap::from([("silent".to_owned(), options)]),
            ..Options::default()
        }))
    }

    /// Abandons this many locks on a server that does not answer.
    fn leave(server: &Server, count: usize, time_ms: u64) {
        server.left();
        for _ in 0..count {
            let lock = Lock::new("key".to_owned(), time_ms).unwrap();
            server.leave(HeldLock { lock, until: None });
        }
    }

    fn on_a_thread(work: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        tokio::task::LocalSet::new().block_on(&runtime.unwrap(), work);
    }

    #[test]
    fn locks_that_a_silent_server_does_not_take_back_are_bounded_and_end_by_themselves() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        on_a_thread(async {
            let clients = clients(&listener);
            let server = clients.redis(None).unwrap();
            leave(&server, LEFT_MAX + 10, 200);
            let left = server.left();
            assert_eq!((left.capacity(), server.is_told.get()), (0, true));
            // None of them is answered, so only their own time makes room again.
            let room = timeout(Duration::from_secs(20), left.reserve_many(LEFT_MAX)).await;
            assert!(room.is_ok_and(|room| room.is_ok()), "{} places", left.capacity());
        });
    }

    #[test]
    fn a_run_has_no_more_locks_than_it_may() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        on_a_thread(async {
            let clients = clients(&listener);
            let (server, session) = (clients.redis(None).unwrap(), clients.session(Instant::now()));
            let ask = |time_ms| {
                let lock = Lock::new("key".to_owned(), time_ms).unwrap();
                session.hold(&server, lock.clone()).map(|()| session.ends(&lock))
            };
            // Expired locks do not count.
            ask(0).unwrap();
            for _ in 0..LOCKS_MAX {
                ask(60_000).unwrap();
            }
            assert_eq!(ask(60_000).unwrap_err().code(), "refused");
        });
    }
}
