//! The environment of a test: a server thread with its mailbox, a supervisor, and one pool.

use std::{
    future::Future,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_pool::{
    Answer, Connection, Delivery, Failure, Job, Limits, LocalMailbox, Mailboxes, Options, Pending, Pool,
    Program, Protocol, Recycle, RequestParts, Retry, Supervisor,
};

use crate::worker;

/// How long a test waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct House {
    pub(crate) pool: Pool,
    pub(crate) mailbox: Rc<LocalMailbox>,
    /// Ends its thread once the pool has stopped.
    _supervisor: Supervisor,
}

/// Options of a pool with one worker.
pub(crate) fn options() -> Options {
    Options {
        name: "test".into(),
        program: program(""),
        workers_min: 1,
        workers_max: 1,
        concurrency: 1,
        concurrency_max: 1,
        connections_max: 100,
        queue_max: 100,
        queue_bytes_max: 64 << 20,
        start_timeout: Duration::from_secs(10),
        kill_grace: Duration::from_millis(100),
        idle_retire: Duration::from_mins(10),
        recycle: Recycle::default(),
        message_bytes_max: 1 << 20,
        call_timeout: Duration::from_secs(1),
        confinement: None,
        calls: None,
        remote: false,
        files: true,
    }
}

pub(crate) fn program(mode: &str) -> Program {
    let this = std::env::current_exe().unwrap();
    Program {
        argv: vec![
            this.into(),
            worker::TEST.into(),
            "--exact".into(),
            "--nocapture".into(),
            "--test-threads=1".into(),
        ],
        env: vec![(worker::MODE.into(), mode.into())],
        cwd: std::env::temp_dir(),
        protocol: Protocol::Framed,
        page: false,
        handler: None,
        start: None,
    }
}

/// Runs a test with a new pool, then stops the pool and checks that every process ends.
pub(crate) fn with<F: Future<Output = ()>>(options: Options, test: impl FnOnce(Rc<House>) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let mailboxes = Mailboxes::new(1);
        let house = House::new(options, &mailboxes);
        within(test(house.clone())).await;
        let pids = house.pids();
        house.pool.stop_now();
        within(house.pool.stopped()).await;
        for pid in pids {
            assert!(!is_alive(pid), "worker process {pid} outlives its pool");
        }
        house.assert_conserved();
    });
}

/// Awaits a future; fails the test if it takes too long.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("it comes in time")
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    let mut looks = tokio::time::interval(Duration::from_millis(2));
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "{what}: in vain");
        looks.tick().await;
    }
}

pub(crate) fn is_alive(pid: u32) -> bool {
    // A process that has ended but was not waited for still exists as a zombie.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ")
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

impl House {
    fn new(options: Options, mailboxes: &Arc<Mailboxes>) -> Rc<Self> {
        let supervisor = Supervisor::start().unwrap();
        let mailbox = LocalMailbox::open(mailboxes, 0);
        let pool = Pool::start(options, &supervisor, mailboxes.clone());
        Rc::new(Self {
            pool,
            mailbox,
            _supervisor: supervisor,
        })
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.pool
            .status()
            .workers
            .iter()
            .map(|worker| worker.pid)
            .collect()
    }

    pub(crate) async fn is_ready(&self) {
        within(self.pool.settled()).await.unwrap();
    }

    pub(crate) async fn has_workers(&self, count: usize) {
        let ready = || {
            self.pool
                .status()
                .workers
                .iter()
                .filter(|worker| worker.phase == "ready")
                .count()
        };
        until(&format!("{count} workers are ready"), || {
            self.pool.status().workers.len() == count && ready() == count
        })
        .await;
    }

    pub(crate) fn submit(&self, job: Job) -> Result<Pending<'_>, Failure> {
        self.pool.submit(&self.mailbox, job)
    }

    /// Submits a job and waits for its complete response.
    pub(crate) async fn call(&self, job: Job) -> Result<Vec<u8>, Failure> {
        let mut pending = self.submit(job)?;
        whole(&mut pending).await
    }

    pub(crate) async fn pid(&self) -> u32 {
        String::from_utf8(self.call(job("/pid")).await.unwrap())
            .unwrap()
            .parse()
            .unwrap()
    }

    /// Asserts the equations of `Counters`, once no job is in flight.
    pub(crate) fn assert_conserved(&self) {
        let counters = self.pool.status().counters;
        let failed: u64 = counters.failed.values().sum();
        let over = counters.answered + counters.faulted + counters.cancelled + failed;
        assert_eq!(counters.accepted, over, "{counters:?}");
        assert_eq!(
            counters.started,
            counters.ended.values().sum::<u64>(),
            "{counters:?}"
        );
    }
}

/// A job with generous limits and no body.
pub(crate) fn job(path: &str) -> Job {
    job_with(path, b"")
}

pub(crate) fn job_with(path: &str, body: &[u8]) -> Job {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut payload = Vec::new();
    RequestParts {
        remaining_ms: 0,
        method: b"GET",
        path: path.as_bytes(),
        query: query.as_bytes(),
        route: b"/*",
        params: std::iter::empty(),
        headers: std::iter::empty(),
        peer: b"127.0.0.1",
        id: b"abc",
        identity: b"",
        body,
    }
    .put(&mut payload);
    let limits = Limits {
        queue_timeout: Duration::from_secs(30),
        run_timeout: Duration::from_secs(30),
        retry: Retry::Never,
    };
    Job {
        payload,
        whole: true,
        may_upgrade: false,
        connection: Connection::default(),
        client: None,
        trace: None,
        since: Instant::now(),
        deadline: Instant::now() + Duration::from_mins(1),
        limits,
    }
}

pub(crate) async fn head(pending: &mut Pending<'_>) -> Result<Answer, Failure> {
    match within(pending.next()).await {
        Delivery::Answer(answer) => Ok(answer),
        Delivery::Failed(failure) => Err(failure),
        other => panic!("an answer or a failure comes first, not {other:?}"),
    }
}

/// Receives the complete body.
pub(crate) async fn whole(pending: &mut Pending<'_>) -> Result<Vec<u8>, Failure> {
    let answer = head(pending).await?;
    let mut body = answer.body().to_vec();
    let mut ended = answer.ended();
    while !ended {
        match within(pending.next()).await {
            Delivery::Chunk { bytes, end, .. } => {
                pending.grant(bytes.len() as u32);
                body.extend_from_slice(&bytes);
                ended = end;
            }
            Delivery::Failed(failure) => return Err(failure),
            other => panic!("{other:?} comes after the head"),
        }
    }
    Ok(body)
}
