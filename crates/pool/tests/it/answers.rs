//! Jobs that succeed.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use forebay_pool::{Delivery, Failure, LocalMailbox, Mailboxes, Options, Pool, Supervisor};

use crate::house::{self, House, head, job, job_with, options, until, whole, within};

#[test]
fn every_job_gets_its_own_answer() {
    let options = Options {
        workers_min: 3,
        workers_max: 3,
        queue_max: 500,
        ..options()
    };
    house::with(options, |house| async move {
        house.is_ready().await;
        let bodies: Vec<_> = (0..500).map(|n| format!("body {n}").into_bytes()).collect();
        let pending: Vec<_> = bodies
            .iter()
            .map(|body| house.submit(job_with("/echo", body)).unwrap())
            .collect();
        for (mut pending, body) in pending.into_iter().zip(&bodies) {
            assert_eq!(whole(&mut pending).await.as_ref(), Ok(body));
        }
        let counters = house.pool.status().counters;
        assert_eq!((counters.accepted, counters.answered), (500, 500));
    });
}

#[test]
fn every_byte_passes_unchanged() {
    house::with(options(), |house| async move {
        let body: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        assert_eq!(house.call(job_with("/echo", &body)).await, Ok(body));
    });
}

#[test]
fn a_job_waits_for_the_first_worker_to_be_ready() {
    let options = Options {
        workers_min: 0,
        ..options()
    };
    house::with(options, |house| async move {
        assert!(house.pids().is_empty(), "no worker is kept for nobody");
        assert_eq!(house.call(job_with("/echo", b"first")).await.unwrap(), b"first");
    });
}

#[test]
fn a_faulted_answer_is_an_answer() {
    house::with(options(), |house| async move {
        let mut pending = house.submit(job("/fault")).unwrap();
        let answer = head(&mut pending).await.unwrap();
        assert!(answer.faulted() && answer.ended());
        assert_eq!(house.pool.status().counters.faulted, 1);
    });
}

#[test]
fn a_response_streams() {
    house::with(options(), |house| async move {
        assert_eq!(house.call(job("/stream?3")).await.unwrap(), b"head 0 1 2 end");
    });
}

/// A worker that blocks on writing does not read meanwhile, so the server must keep reading although it has more to write.
#[test]
fn a_long_body_streams_through_a_worker_that_blocks_on_its_writes() {
    const LENGTH: usize = 24 << 20;
    house::with(options(), |house| async move {
        let mut start = job_with("/echo", b"");
        start.whole = false;
        let mut pending = house.submit(start).unwrap();
        let byte = |at: usize| (at % 251) as u8;
        let (mut sent, mut received) = (0, 0);
        loop {
            match within(pending.next()).await {
                Delivery::Answer(answer) => assert!(!answer.ended()),
                Delivery::Window(bytes) if sent < LENGTH => {
                    let until = (sent + bytes as usize).min(LENGTH);
                    let piece: Vec<_> = (sent..until).map(byte).collect();
                    sent = until;
                    assert!(pending.send_body(&piece, sent == LENGTH));
                }
                Delivery::Window(_) => {}
                Delivery::Chunk { bytes, end, .. } => {
                    assert!(
                        bytes
                            .iter()
                            .enumerate()
                            .all(|(at, &found)| found == byte(received + at))
                    );
                    received += bytes.len();
                    pending.grant(bytes.len() as u32);
                    if end {
                        break;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((sent, received), (LENGTH, LENGTH));
    });
}

#[test]
fn one_slow_owner_does_not_make_the_pool_buffer_without_bound() {
    let options = Options {
        workers_min: 2,
        workers_max: 2,
        ..options()
    };
    house::with(options, |house| async move {
        house.has_workers(2).await;
        let mut endless = house.submit(job("/endless")).unwrap();
        head(&mut endless).await.unwrap();
        // The stream's body is not consumed: the worker stops at its window, and other jobs are served meanwhile.
        for _ in 0..50 {
            house.call(job("/pid")).await.unwrap();
        }
        let mut taken = 0;
        let window = 256 * 1024;
        while taken + 1000 <= window {
            let Delivery::Chunk {
                bytes, end: false, ..
            } = within(endless.next()).await
            else {
                panic!("the body goes on")
            };
            taken += bytes.len();
        }
        let more = tokio::select! {
            biased;
            delivery = endless.next() => Some(delivery),
            answer = house.call(job("/pid")) => { answer.unwrap(); None }
        };
        assert!(more.is_none(), "{more:?} comes beyond the window");
        endless.grant(1000);
        assert!(matches!(within(endless.next()).await, Delivery::Chunk { .. }));
    });
}

#[test]
fn a_queue_at_its_bounds_says_which() {
    let options = Options {
        queue_max: 2,
        queue_bytes_max: 2_000,
        ..options()
    };
    house::with(options, |house| async move {
        house.is_ready().await;
        let _spins = house.submit(job("/spin")).unwrap();
        let big = house.submit(job_with("/echo", &[0; 1_500])).unwrap();
        let failure = house.submit(job_with("/echo", &[0; 1_500])).unwrap_err();
        assert!(
            matches!(
                failure,
                Failure::QueueBytesFull {
                    queue_bytes_max: 2_000,
                    ..
                }
            ),
            "{failure}"
        );
        let small = house.submit(job("/pid")).unwrap();
        let failure = house.submit(job("/pid")).unwrap_err();
        assert_eq!(failure.to_string(), "queue of pool `test` is full (queue_max 2)");
        drop(big);
        assert_eq!(house.pool.status().queued, 1, "who leaves makes room");
        house.submit(job("/pid")).unwrap();
        drop(small);
    });
}

#[test]
fn jobs_run_in_the_order_of_their_arrival() {
    house::with(options(), |house| async move {
        house.is_ready().await;
        let blocks = house.submit(job("/work?30")).unwrap();
        let order = Cell::new(0);
        let pending: Vec<_> = (0..20).map(|_| house.submit(job("/pid")).unwrap()).collect();
        let waits = pending.into_iter().enumerate().map(|(place, mut pending)| {
            let order = &order;
            async move {
                whole(&mut pending).await.unwrap();
                assert_eq!(order.replace(place + 1), place);
            }
        });
        let all: Vec<_> = waits.map(Box::pin).collect();
        join_in_any_order(all).await;
        drop(blocks);
    });
}

/// Polls all futures until each is done.
async fn join_in_any_order<F: Future<Output = ()> + Unpin>(mut futures: Vec<F>) {
    within(std::future::poll_fn(|cx| {
        futures.retain_mut(|future| std::pin::Pin::new(future).poll(cx).is_pending());
        if futures.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    }))
    .await;
}

#[test]
fn whoever_leaves_the_queue_is_never_run() {
    let file = tempfile("left");
    house::with(options(), |house| async move {
        house.is_ready().await;
        let blocks = house.submit(job("/work?50")).unwrap();
        let leaves = house.submit(job(&format!("/crash?{file}"))).unwrap();
        drop(leaves);
        let mut blocks = blocks;
        whole(&mut blocks).await.unwrap();
        house.pid().await;
        assert!(
            !std::path::Path::new(&file).exists(),
            "the job ran although its owner had left"
        );
        assert_eq!(house.pool.status().counters.cancelled, 1);
    });
}

pub(crate) fn tempfile(name: &str) -> String {
    let path = std::env::temp_dir().join(format!("forebay-pool-test-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path.into_os_string().into_string().unwrap()
}

#[test]
fn a_stream_whose_owner_leaves_ends_and_frees_its_worker() {
    house::with(options(), |house| async move {
        let mut endless = house.submit(job("/endless")).unwrap();
        head(&mut endless).await.unwrap();
        let pid = house.pids();
        drop(endless);
        house.call(job("/pid")).await.unwrap();
        assert_eq!(house.pids(), pid, "the worker was told and went on");
    });
}

#[test]
fn a_deadline_passes_in_the_queue_and_in_the_handler() {
    house::with(options(), |house| async move {
        house.is_ready().await;
        let soon = Instant::now() + Duration::from_millis(60);
        let mut runs = house
            .submit(forebay_pool::Job {
                deadline: soon,
                ..job("/spin")
            })
            .unwrap();
        let mut waits = house
            .submit(forebay_pool::Job {
                deadline: soon,
                ..job("/pid")
            })
            .unwrap();
        let mut short = job("/pid");
        short.limits.queue_timeout = Duration::from_millis(10);
        let mut short = house.submit(short).unwrap();
        assert!(matches!(
            whole(&mut short).await,
            Err(Failure::QueueTimeout { .. })
        ));
        assert_eq!(whole(&mut waits).await, Err(Failure::DeadlinePassed));
        assert_eq!(whole(&mut runs).await, Err(Failure::DeadlinePassed));
        assert!(Instant::now() >= soon, "not before its time");
    });
}

#[test]
fn threads_get_the_answers_to_their_own_jobs() {
    const THREADS: usize = 3;
    const EACH: usize = 300;
    let mailboxes = Mailboxes::new(THREADS);
    let supervisor = Supervisor::start().unwrap();
    let options = Options {
        workers_min: 2,
        workers_max: 2,
        queue_max: 5_000,
        ..options()
    };
    let pool = Pool::start(options, &supervisor, mailboxes.clone());
    let done = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, mailboxes, done) = (&pool, &mailboxes, &done);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                tokio::task::LocalSet::new().block_on(&runtime, async {
                    let mailbox = LocalMailbox::open(mailboxes, thread);
                    let body = |n: usize| format!("{thread} {n}").into_bytes();
                    let submit = |n| pool.submit(&mailbox, job_with("/echo", &body(n))).unwrap();
                    let pending: Vec<_> = (0..EACH).map(submit).collect();
                    for (n, mut pending) in pending.into_iter().enumerate() {
                        assert_eq!(whole(&mut pending).await, Ok(body(n)));
                    }
                    done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    // Threads read workers' links for each other, so each stays until all are done.
                    until("all threads are done", || {
                        done.load(std::sync::atomic::Ordering::SeqCst) == THREADS
                    })
                    .await;
                    pool.stop();
                    within(pool.stopped()).await;
                });
            });
        }
    });
    assert_eq!(pool.status().counters.answered as usize, THREADS * EACH);
}

/// Asserts that the pool still works.
pub(crate) async fn goes_on(house: &House) {
    assert_eq!(
        house.call(job_with("/echo", b"still here")).await.unwrap(),
        b"still here"
    );
}
