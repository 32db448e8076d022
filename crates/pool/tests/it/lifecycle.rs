//! Failed starts, and starting and stopping of workers.

use std::time::{Duration, Instant};

use forebay_pool::{EndCause, Failure, Options, Program, Readiness, Recycle};

use crate::{
    answers::goes_on,
    house::{self, House, is_alive, job, job_with, options, program, until, whole, within},
};

/// Checks the pool's error message for a start that fails.
fn failing(program: Program, check: impl FnOnce(&str)) {
    let options = Options {
        program,
        start_timeout: Duration::from_millis(300),
        ..options()
    };
    house::with(options, |house| async move {
        let said = within(house.pool.settled()).await.unwrap_err();
        check(&said);
        let refused = house.submit(job("/pid")).unwrap_err();
        assert!(matches!(refused, Failure::NotStarting { .. }), "{refused}");
    });
}

#[test]
fn a_worker_that_dies_at_its_start_is_quoted() {
    failing(program("dies at start"), |said| {
        assert!(
            said.contains("exit status: 3") && said.contains("no such table: users"),
            "{said}"
        );
    });
}

#[test]
fn a_worker_that_says_why_it_cannot_start_is_quoted() {
    failing(program("refuses"), |said| {
        assert!(said.contains("the handler has no default export"), "{said}");
    });
}

#[test]
fn a_worker_of_another_protocol_is_named() {
    failing(program("old protocol"), |said| {
        assert!(said.contains("protocol 99, this server 1 to 1"), "{said}");
    });
}

#[test]
fn a_worker_that_hangs_at_its_start_is_killed() {
    failing(program("hangs at start"), |said| {
        assert!(said.contains("signal: 9"), "{said}");
    });
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let missing = Program {
        argv: vec!["/no/such/program".into()],
        ..program("")
    };
    failing(missing, |said| {
        assert!(said.contains("cannot start `/no/such/program`"), "{said}");
    });
}

#[test]
fn a_pool_whose_workers_do_not_start_backs_off() {
    for mode in ["dies at start", "dies when ready"] {
        let options = Options {
            program: program(mode),
            ..options()
        };
        let since = Instant::now();
        house::with(options, |house| async move {
            let ended = || house.pool.status().counters.ended.values().sum::<u64>();
            until("four starts have failed", || ended() >= 4).await;
            assert!(
                since.elapsed() >= Duration::from_millis(100 + 200 + 400),
                "the pauses double: {mode}"
            );
        });
    }
}

#[test]
fn waiting_jobs_are_refused_when_starts_fail() {
    let options = Options {
        program: program("dies at start"),
        ..options()
    };
    house::with(options, |house| async move {
        if let Ok(mut waits) = house.submit(job("/pid")) {
            assert!(matches!(
                whole(&mut waits).await,
                Err(Failure::NotStarting { .. })
            ));
        }
    });
}

#[test]
fn stopping_finishes_what_was_accepted_and_refuses_the_rest() {
    house::with(options(), |house| async move {
        house.is_ready().await;
        let mut runs = house.submit(job_with("/work?50", b"one")).unwrap();
        let mut waits = house.submit(job_with("/work?10", b"two")).unwrap();
        let pids = house.pids();
        house.pool.stop();
        assert!(matches!(house.submit(job("/pid")), Err(Failure::Stopping { .. })));
        assert_eq!(whole(&mut runs).await.unwrap(), b"one");
        assert_eq!(whole(&mut waits).await.unwrap(), b"two");
        within(house.pool.stopped()).await;
        assert_eq!(house.pool.readiness(), Readiness::Stopped);
        assert!(pids.iter().all(|&pid| !is_alive(pid)));
    });
}

#[test]
fn stopping_now_fails_what_is_left() {
    house::with(options(), |house| async move {
        house.is_ready().await;
        let mut runs = house.submit(job("/spin")).unwrap();
        let mut waits = house.submit(job("/pid")).unwrap();
        house.pool.stop_now();
        assert!(matches!(whole(&mut runs).await, Err(Failure::Stopping { .. })));
        assert!(matches!(whole(&mut waits).await, Err(Failure::Stopping { .. })));
        within(house.pool.stopped()).await;
    });
}

#[test]
fn a_pool_stops_also_while_its_workers_start() {
    let options = Options {
        program: program("hangs at start"),
        workers_min: 2,
        workers_max: 2,
        ..options()
    };
    house::with(options, |house| async move {
        until("workers are starting", || house.pids().len() == 2).await;
        house.pool.stop();
        within(house.pool.stopped()).await;
    });
}

#[test]
fn a_worker_that_ignores_being_drained_is_made_to_end() {
    let options = Options {
        program: program("ignores drain"),
        ..options()
    };
    house::with(options, |house| async move {
        house.is_ready().await;
        let pids = house.pids();
        house.pool.stop();
        within(house.pool.stopped()).await;
        assert!(pids.iter().all(|&pid| !is_alive(pid)));
    });
}

#[test]
fn a_pool_changes_its_size_while_it_works() {
    house::with(options(), |house| async move {
        house.has_workers(1).await;
        house.pool.resize(3, 3);
        house.has_workers(3).await;
        goes_on(&house).await;
        house.pool.resize(1, 1);
        house.has_workers(1).await;
        goes_on(&house).await;
        assert_eq!(
            house.pool.status().counters.ended.get(&EndCause::Stopped),
            Some(&2)
        );
    });
}

#[test]
fn workers_are_started_for_waiting_jobs_and_retired_when_idle() {
    let options = Options {
        workers_max: 3,
        idle_retire: Duration::from_millis(50),
        ..options()
    };
    house::with(options, |house| async move {
        house.has_workers(1).await;
        let spins: Vec<_> = (0..3).map(|_| house.submit(job("/work?200")).unwrap()).collect();
        house.has_workers(3).await;
        for mut spins in spins {
            whole(&mut spins).await.unwrap();
        }
        house.has_workers(1).await;
        assert_eq!(house.pool.status().counters.ended.get(&EndCause::Idle), Some(&2));
    });
}

#[test]
fn workers_are_replaced_after_their_jobs_without_a_failure() {
    let recycle = Recycle {
        jobs: 50,
        ..Recycle::default()
    };
    let options = Options { recycle, ..options() };
    house::with(options, |house| async move {
        let recycled = || {
            house
                .pool
                .status()
                .counters
                .ended
                .get(&EndCause::Recycled)
                .copied()
        };
        let since = Instant::now();
        for n in 0.. {
            let body = n.to_string().into_bytes();
            assert_eq!(house.call(job_with("/echo", &body)).await, Ok(body));
            if recycled() >= Some(3) {
                break;
            }
            assert!(since.elapsed() < Duration::from_secs(15), "workers are recycled");
        }
        assert_eq!(house.pool.readiness(), Readiness::Ready);
    });
}

#[test]
fn a_pool_without_a_minimum_recovers_from_a_failed_start() {
    let flag = crate::answers::tempfile("start");
    let script = format!(r#"test -e {flag} || exit 1; exec "$@""#);
    let mut argv: Vec<std::ffi::OsString> = ["/bin/sh", "-c", &script, "sh"].map(Into::into).to_vec();
    argv.extend(program("").argv);
    let options = Options {
        program: Program { argv, ..program("") },
        workers_min: 0,
        ..options()
    };
    house::with(options, |house| async move {
        assert!(matches!(
            house.call(job("/pid")).await,
            Err(Failure::NotStarting { .. })
        ));
        std::fs::write(&flag, "").unwrap();
        until("a start succeeds", || has_ready(&house)).await;
        goes_on(&house).await;
        std::fs::remove_file(&flag).unwrap();
    });
}

fn has_ready(house: &House) -> bool {
    house
        .pool
        .status()
        .workers
        .iter()
        .any(|worker| worker.phase == "ready")
}
