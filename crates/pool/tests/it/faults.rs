//! Workers that die, spin, hang up and break the protocol.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use forebay_pool::{EndCause, Failure, Options, Retry};

use crate::{
    answers::{goes_on, tempfile},
    house::{self, head, is_alive, job, job_with, options, until, whole},
};

fn runs(file: &str) -> usize {
    std::fs::read_to_string(file).unwrap_or_default().lines().count()
}

#[test]
fn a_job_whose_worker_dies_fails_and_the_next_ones_run() {
    let file = tempfile("crash");
    house::with(options(), |house| async move {
        let mut crash = house.submit(job(&format!("/crash?{file}"))).unwrap();
        let next = house.submit(job_with("/echo", b"next")).unwrap();
        let failure = whole(&mut crash).await.unwrap_err();
        assert!(matches!(failure, Failure::WorkerDied { .. }), "{failure}");
        let mut next = next;
        assert_eq!(whole(&mut next).await.unwrap(), b"next");
        assert_eq!(runs(&file), 1, "never twice");
        std::fs::remove_file(&file).unwrap();
    });
}

#[test]
fn an_idempotent_job_runs_twice_at_most() {
    let file = tempfile("retry");
    house::with(options(), |house| async move {
        let mut twice = job(&format!("/crash?{file}"));
        twice.limits.retry = Retry::Idempotent;
        assert!(matches!(house.call(twice).await, Err(Failure::WorkerDied { .. })));
        assert_eq!(runs(&file), 2);
        std::fs::remove_file(&file).unwrap();
        goes_on(&house).await;
    });
}

#[test]
fn an_answer_written_before_the_end_arrives() {
    house::with(options(), |house| async move {
        for round in 1..=5 {
            house.is_ready().await;
            let body = house.call(job_with("/crash-later", b"last words")).await;
            assert_eq!(body.unwrap(), b"last words");
            // Without claim words, a job that is sent to a process in its last moments counts as run.
            let crashes = || {
                house
                    .pool
                    .status()
                    .counters
                    .ended
                    .get(&EndCause::Crashed)
                    .copied()
            };
            until("the end is noticed", || crashes() == Some(round)).await;
        }
        goes_on(&house).await;
    });
}

#[test]
fn a_response_that_breaks_off_says_so() {
    house::with(options(), |house| async move {
        let mut half = house.submit(job("/half")).unwrap();
        assert!(!head(&mut half).await.unwrap().ended());
        assert!(matches!(
            half.next().await,
            forebay_pool::Delivery::Failed(Failure::WorkerDied { .. })
        ));
        assert_eq!(house.call(job("/reset")).await, Err(Failure::ResponseReset));
        goes_on(&house).await;
    });
}

#[test]
fn a_spinning_handler_is_ended_and_replaced() {
    house::with(options(), |house| async move {
        let pid = house.pid().await;
        let mut spins = job("/spin");
        spins.limits.run_timeout = Duration::from_millis(50);
        let since = Instant::now();
        let failure = house.call(spins).await.unwrap_err();
        assert_eq!(
            failure.to_string(),
            "handler has run longer than 50ms (run_timeout)"
        );
        assert!(
            since.elapsed() < Duration::from_secs(1),
            "its owner knows at once"
        );
        assert_ne!(house.pid().await, pid);
        assert!(since.elapsed() < Duration::from_secs(5));
        until("the spinning process is gone", || !is_alive(pid)).await;
        let ended = || house.pool.status().counters.ended;
        until("its end is counted", || {
            ended().get(&EndCause::Overran) == Some(&1)
        })
        .await;
    });
}

#[test]
fn what_follows_garbage_is_lost_and_what_came_before_is_not() {
    house::with(options(), |house| async move {
        assert_eq!(house.call(job_with("/garbage", b"good")).await.unwrap(), b"good");
        until("the worker is replaced", || {
            house.pool.status().counters.ended.get(&EndCause::Protocol) == Some(&1)
        })
        .await;
        goes_on(&house).await;
    });
}

#[test]
fn a_body_before_its_response_ends_the_worker() {
    house::with(options(), |house| async move {
        let failure = house.call(job("/body-first")).await.unwrap_err();
        assert!(matches!(failure, Failure::WorkerDied { .. }), "{failure}");
        assert_eq!(
            house.pool.status().counters.ended.get(&EndCause::Protocol),
            Some(&1)
        );
        goes_on(&house).await;
    });
}

#[test]
fn frames_of_other_jobs_generations_and_times_change_nothing() {
    house::with(options(), |house| async move {
        assert_eq!(house.call(job_with("/foreign", b"mine")).await.unwrap(), b"mine");
        assert_eq!(house.pool.status().counters.stray_frames, 2);
    });
}

#[test]
fn output_on_stdout_never_reaches_the_link() {
    house::with(options(), |house| async move {
        for _ in 0..20 {
            assert_eq!(house.call(job_with("/print", b"clean")).await.unwrap(), b"clean");
        }
    });
}

#[test]
fn a_process_that_closes_its_link_does_not_live_on() {
    house::with(options(), |house| async move {
        let pid = house.pid().await;
        assert!(matches!(
            house.call(job("/hangs-up")).await,
            Err(Failure::WorkerDied { .. })
        ));
        until("the process is gone", || !is_alive(pid)).await;
        goes_on(&house).await;
    });
}

#[test]
fn what_a_worker_has_started_ends_with_it() {
    house::with(options(), |house| async move {
        let child = house.call(job("/child")).await.unwrap();
        let child: u32 = String::from_utf8(child).unwrap().parse().unwrap();
        assert!(is_alive(child));
        // The child keeps the link and both outputs open; that must delay nothing.
        assert!(matches!(
            house.call(job(&format!("/crash?{}", tempfile("parent")))).await,
            Err(Failure::WorkerDied { .. })
        ));
        until("the child is gone", || !is_alive(child)).await;
        goes_on(&house).await;
        std::fs::remove_file(tempfile("parent")).ok();
    });
}

#[test]
fn under_a_storm_of_kills_every_job_has_one_end_of_its_own() {
    const JOBS: usize = 2_000;
    let options = Options {
        workers_min: 3,
        workers_max: 3,
        queue_max: JOBS,
        ..options()
    };
    house::with(options, |house| async move {
        house.has_workers(3).await;
        let body = |n: usize| format!("marker {n}").into_bytes();
        let mut pending: Vec<_> = (0..JOBS)
            .map(|n| Some(house.submit(job_with("/echo", &body(n))).unwrap()))
            .collect();
        let mut ends = BTreeMap::<&str, usize>::new();
        let mut kills = 0;
        for (n, pending) in pending.iter_mut().enumerate() {
            if n % 200 == 100 {
                // Any worker: one that is starting may be hit as well.
                if let Some(&pid) = house.pids().first() {
                    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
                    kills += usize::from(
                        rustix::process::kill_process(pid, rustix::process::Signal::KILL).is_ok(),
                    );
                }
            }
            match whole(&mut pending.take().unwrap()).await {
                Ok(found) => {
                    assert_eq!(found, body(n), "an answer reaches its own job");
                    *ends.entry("answered").or_default() += 1;
                }
                Err(failure) => *ends.entry(failure.name()).or_default() += 1,
            }
        }
        let died = ends.get("worker_died").copied().unwrap_or(0);
        assert!(died <= kills, "{died} jobs died of {kills} kills");
        assert_eq!(ends.values().sum::<usize>(), JOBS);
        assert!(
            ends.keys().all(|end| ["answered", "worker_died"].contains(end)),
            "{ends:?}"
        );
        house.has_workers(3).await;
    });
}
