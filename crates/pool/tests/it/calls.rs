//! Calls that workers make to the server during jobs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use forebay_pool::{Call, CallHandler, CallSocket, Options, Program, Protocol};
use forebay_trace::Trace;
use tokio::sync::mpsc;

use crate::house::{self, job, job_with, options, until};

/// Echoes the call, returns a long text, or never answers, as the call demands.
#[derive(Debug, Default)]
struct Echo {
    opened: AtomicUsize,
    closed: Arc<AtomicUsize>,
    held: Arc<AtomicUsize>,
}

impl CallHandler for Echo {
    fn open(&self, _trace: Option<Trace>) -> mpsc::UnboundedSender<Call> {
        self.opened.fetch_add(1, Ordering::SeqCst);
        let (calls, mut arriving) = mpsc::unbounded_channel::<Call>();
        let (closed, held) = (self.closed.clone(), self.held.clone());
        thread::spawn(move || {
            let mut kept = Vec::new();
            while let Some(call) = arriving.blocking_recv() {
                let asked = call.body().to_vec();
                let answer = match asked.strip_prefix(b"long ") {
                    _ if asked == b"hold" || asked == br#""hold""# => {
                        kept.push(call);
                        held.fetch_add(1, Ordering::SeqCst);
                        continue;
                    }
                    Some(length) => vec![b'x'; std::str::from_utf8(length).unwrap().parse().unwrap()],
                    None => asked,
                };
                call.answer(answer).unwrap().write();
            }
            drop(kept);
            closed.fetch_add(1, Ordering::SeqCst);
        });
        calls
    }

    fn attend(&self, socket: CallSocket) {
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(socket.run());
        });
    }
}

fn with_handlers(handlers: &Arc<Echo>) -> Options {
    Options {
        calls: Some(handlers.clone()),
        ..options()
    }
}

async fn until_is(what: &str, count: &AtomicUsize, wanted: usize) {
    until(what, || count.load(Ordering::SeqCst) == wanted).await;
}

#[test]
fn a_call_is_answered_on_the_socket_it_came_on_whatever_its_length() {
    let handlers = Arc::<Echo>::default();
    house::with(with_handlers(&handlers), |house| async move {
        let every: Vec<u8> = (0..=255).collect();
        for path in ["/call", "/call-socket"] {
            for (asked, times) in [(&b""[..], 1), (b"hello", 1), (&every, 12_345)] {
                let answer = house
                    .call(job_with(&format!("{path}?{times}"), asked))
                    .await
                    .unwrap();
                assert!(answer == asked.repeat(times), "{path}: {} bytes", answer.len());
            }
            // Far more than a socket buffer holds, while other frames are sent.
            let answer = house.call(job_with(path, b"long 20000000")).await.unwrap();
            assert_eq!(answer.len(), 20_000_000, "{path}");
        }
    });
}

#[test]
fn a_job_has_a_handler_of_its_own_which_ends_with_it() {
    let handlers = Arc::<Echo>::default();
    let counts = handlers.clone();
    house::with(with_handlers(&handlers), |house| async move {
        house.call(job("/echo")).await.unwrap();
        assert_eq!(
            counts.opened.load(Ordering::SeqCst),
            0,
            "it opens with the first call"
        );
        for turn in 1..=3 {
            house.call(job_with("/call", b"a")).await.unwrap();
            until_is("the handler to close", &counts.closed, turn).await;
            assert_eq!(counts.opened.load(Ordering::SeqCst), turn);
        }
        // A call that its job has not waited for ends as well, and the worker is told.
        house.call(job_with("/call-late", b"hold")).await.unwrap();
        let told = house.call(job("/told")).await.unwrap();
        let told = String::from_utf8(told).unwrap();
        assert!(told.starts_with(r#"{"error":{"code":"over""#), "{told}");
        until_is("the handler to close", &counts.closed, 4).await;
    });
}

#[test]
fn a_handler_ends_when_nobody_waits_for_its_job_any_more() {
    let handlers = Arc::<Echo>::default();
    let counts = handlers.clone();
    house::with(with_handlers(&handlers), |house| async move {
        for (turn, path) in ["/call", "/call-socket"].into_iter().enumerate() {
            let pending = house.submit(job_with(path, b"hold")).unwrap();
            until_is("the call to be there", &counts.held, turn + 1).await;
            drop(pending);
            until_is("the handler to close", &counts.closed, turn + 1).await;
            // The worker still works, so it has heard that the call is over.
            assert_eq!(house.call(job_with("/echo", b"next")).await.unwrap(), b"next");
        }
    });
}

#[test]
fn a_handler_ends_with_its_worker() {
    let handlers = Arc::<Echo>::default();
    let counts = handlers.clone();
    house::with(with_handlers(&handlers), |house| async move {
        house.is_ready().await;
        let mut pending = house.submit(job_with("/call-socket", b"hold")).unwrap();
        until_is("the call to be there", &counts.held, 1).await;
        let pid = house.pids()[0];
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        assert!(house::whole(&mut pending).await.is_err());
        until_is("the handler to close", &counts.closed, 1).await;
    });
}

#[test]
fn what_is_asked_outside_of_jobs_has_a_handler_as_long_as_the_worker() {
    let handlers = Arc::<Echo>::default();
    let counts = handlers.clone();
    let options = Options {
        program: house::program("calls at start"),
        ..with_handlers(&handlers)
    };
    house::with(options, |house| async move {
        house.is_ready().await;
        assert_eq!(house.call(job("/echo")).await.unwrap(), b"");
        let count = |of: &AtomicUsize| of.load(Ordering::SeqCst);
        assert_eq!((count(&counts.opened), count(&counts.closed)), (1, 0));
        let crash = house.call(job("/crash?/dev/null")).await;
        assert!(crash.is_err(), "{crash:?}");
        until("the handler to close", || count(&counts.closed) >= 1).await;
    });
}

#[test]
fn a_job_may_have_so_many_calls_open_and_no_more() {
    let handlers = Arc::<Echo>::default();
    house::with(with_handlers(&handlers), |house| async move {
        let told = house.call(job_with("/call-many", b"hold")).await.unwrap();
        let told = String::from_utf8(told).unwrap();
        assert_eq!(
            told,
            r#"{"error":{"code":"full","message":"this request already has 1024 open calls"}}"#
        );
        assert_eq!(house.call(job_with("/call", b"a")).await.unwrap(), b"a");
    });
}

#[test]
fn a_worker_without_frames_has_one_handler_and_may_have_so_many_calls_open() {
    // It makes one call more than it may, and answers its job with what it hears first.
    let script = r#"read -r request
        i=0; while [ $i -le 256 ]; do echo "{\"call\":$i,\"tql\":\"hold\"}"; i=$((i + 1)); done
        read -r told; echo "{\"id\":1,\"json\":$told}"
        while read -r line; do :; done"#;
    let handlers = Arc::<Echo>::default();
    let counts = handlers.clone();
    let options = Options {
        program: Program {
            argv: ["/bin/sh", "-c", script].map(Into::into).into(),
            protocol: Protocol::Jsonl,
            ..house::program("")
        },
        ..with_handlers(&handlers)
    };
    house::with(options, |house| async move {
        let told = house.call(job("/")).await.unwrap();
        assert_eq!(
            String::from_utf8(told).unwrap(),
            r#"{"call":256,"result":{"code":-1,"error":"this worker already has 256 open calls"}}"#
        );
        until_is("the calls to be there", &counts.held, 256).await;
        assert_eq!(counts.opened.load(Ordering::SeqCst), 1);
        house.pool.stop();
        until_is("the handler to close", &counts.closed, 1).await;
    });
}

#[test]
fn a_pool_without_handlers_says_so() {
    house::with(options(), |house| async move {
        let told = house.call(job_with("/call", b"a")).await.unwrap();
        let told = String::from_utf8(told).unwrap();
        assert!(told.starts_with(r#"{"error":{"code":"unavailable""#), "{told}");
    });
}

#[test]
fn a_worker_that_breaks_the_protocol_on_its_call_socket_is_replaced() {
    let handlers = Arc::<Echo>::default();
    house::with(with_handlers(&handlers), |house| async move {
        house.is_ready().await;
        let pid = house.pid().await;
        let broken = house.call(job("/call-garbage")).await;
        assert!(broken.is_err(), "{broken:?}");
        assert_ne!(house.pid().await, pid);
    });
}
