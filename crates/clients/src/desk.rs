//! Has operations done: those of a thread share its connections, those of a run what it holds.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    rc::Rc,
    sync::Arc,
};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    ClientError, Options,
    operation::Operation,
    process,
    redis::{Lock, Pool},
};

/// The clients of one thread.
#[derive(Debug)]
pub struct Clients {
    options: Arc<Options>,
    pools: RefCell<HashMap<String, Rc<Pool>>>,
    /// Takes the locks of runs that have ended to whoever gives them back.
    left: OnceCell<mpsc::UnboundedSender<(Rc<Pool>, Lock)>>,
}

/// What one run has; dropping it gives back what it holds.
#[derive(Debug)]
pub struct Desk {
    clients: Rc<Clients>,
    locks: RefCell<Vec<(Rc<Pool>, Lock)>>,
}

impl Clients {
    /// Of a thread that may reach this.
    pub fn new(options: Arc<Options>) -> Rc<Self> {
        Rc::new(Self {
            options,
            pools: RefCell::default(),
            left: OnceCell::new(),
        })
    }

    /// For a run that begins.
    pub fn desk(self: &Rc<Self>) -> Desk {
        Desk {
            clients: Rc::clone(self),
            locks: RefCell::default(),
        }
    }

    fn redis(&self, name: Option<&str>) -> Result<Rc<Pool>, ClientError> {
        let (name, options) = self.options.redis(name)?;
        let mut pools = self.pools.borrow_mut();
        if let Some(pool) = pools.get(name) {
            return Ok(Rc::clone(pool));
        }
        let pool = Rc::new(Pool::new(name, options.clone()));
        pools.insert(name.to_owned(), Rc::clone(&pool));
        Ok(pool)
    }

    /// Where locks go that are left: a task of this thread gives them back, one after another.
    fn left(&self) -> &mpsc::UnboundedSender<(Rc<Pool>, Lock)> {
        self.left.get_or_init(|| {
            let (sender, mut left) = mpsc::unbounded_channel::<(Rc<Pool>, Lock)>();
            tokio::task::spawn_local(async move {
                while let Some((pool, lock)) = left.recv().await {
                    // One that cannot be given back ends by itself.
                    if let Err(error) = pool.unlock(&lock).await {
                        tracing::warn!(target: "forebay::clients", "a lock stays until its time is over: {error}");
                    }
                }
            });
            sender
        })
    }
}

impl Desk {
    /// Has an operation done, on a thread with a `LocalSet`; it ends when its future is dropped, which whoever asks does when the run is over. Gives `{"value": ...}`, or `{"error": {"code", "message"}}`.
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
                let pool = self.clients.redis(Some(&source))?;
                pool.run(&command).await
            }
            Operation::Lock {
                source,
                key,
                time_ms,
                wait_ms,
            } => {
                let pool = self.clients.redis(source.as_deref())?;
                let lock = Lock::new(key, time_ms)?;
                self.clients.left();
                // Before it is asked for: whatever becomes of that, it is given back.
                self.locks.borrow_mut().push((Rc::clone(&pool), lock.clone()));
                let taken = pool.lock(&lock, wait_ms).await;
                if taken == Ok(false) {
                    self.take(lock.token());
                }
                Ok(taken?.then(|| lock.token().to_owned()).into())
            }
            Operation::Unlock { token } => match self.take(&token) {
                Some((pool, lock)) => pool.unlock(&lock).await.map(Value::from),
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
            Operation::Process {
                program,
                args,
                stdin,
                time_ms,
            } => process::run(&self.clients.options, &program, &args, stdin, time_ms).await,
        }
    }

    /// Takes a lock away from what is given back at the end.
    fn take(&self, token: &str) -> Option<(Rc<Pool>, Lock)> {
        let mut locks = self.locks.borrow_mut();
        let at = locks.iter().position(|(_, lock)| lock.token() == token)?;
        Some(locks.swap_remove(at))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let Some(left) = self.clients.left.get() else {
            return;
        };
        for held in self.locks.take() {
            // Where the thread does not go on, it ends by itself.
            let _ = left.send(held);
        }
    }
}
