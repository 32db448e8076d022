//! Hosts that die, and announcements that nobody should follow.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use forebay_testkit::wait_until;
use forebay_wire::{FrameType, Header, Split, put_frame, split_frame};
use rustix::process::Signal;
use serde_json::Value;

use super::{Nats, PATIENT, Stranger, announce, config, front, host, host_id, hosts, node, wait_for_hosts};
use crate::support::{ONE_WORKER, TOOLBOX, open, wait_for_note};

#[test]
fn without_a_host_requests_are_refused_at_once_and_the_server_says_why() {
    let nats = Nats::start();
    let front = front(&nats, TOOLBOX, "");
    wait_until("the front end is connected", || {
        front.get("/pid").detail().contains("none announces itself")
    });
    let refused = front.get("/pid");
    assert_eq!(refused.status, 503);
    assert!(refused.header("retry-after").is_some());
    assert!(
        refused.detail().contains("pool `api` has no worker host"),
        "{}",
        refused.detail()
    );
    let ready = front.admin().get("/health/ready");
    assert_eq!(ready.status, 503);
    let reason = &ready.json()["pools"]["api"]["reason"];
    assert!(
        reason
            .as_str()
            .is_some_and(|reason| reason.contains("none announces itself")),
        "{reason}"
    );
    assert_eq!(front.get("/here").status, 200, "other routes need no host");
    let _host = host(&nats, TOOLBOX, "");
    wait_for_hosts(&front, 1);
    assert_eq!(front.get("/pid").status, 200);
    wait_until("it is ready", || front.admin().get("/health/ready").status == 200);
}

#[test]
fn what_a_killed_host_was_running_fails_or_runs_again_elsewhere() {
    let nats = Nats::start();
    let keys = format!("{ONE_WORKER}\nretry = \"idempotent\"");
    let front = front(&nats, TOOLBOX, &keys);
    let mut first = host(&nats, TOOLBOX, &keys);
    wait_for_hosts(&front, 1);
    let mut once = front.connect();
    once.post("/hold/gate/once", b"");
    wait_for_note(&first, "begin once");
    first.kill();
    assert_eq!(once.response().status, 502, "what must not run twice");
    wait_until("it is out of rotation", || hosts(&front, "ready").is_empty());
    let mut second = host(&nats, TOOLBOX, &keys);
    wait_for_hosts(&front, 1);
    let mut again = front.connect();
    again.request("GET", "/hold/gate/again");
    wait_for_note(&second, "begin again");
    let third = host(&nats, TOOLBOX, &keys);
    wait_for_hosts(&front, 2);
    second.kill();
    wait_for_note(&third, "begin again");
    open(&third, "gate");
    assert_eq!(again.response().status, 200, "what may run twice");
    assert_eq!(front.get("/pid").status, 200);
}

#[test]
fn a_host_that_has_little_time_to_drain_takes_its_leave_at_once() {
    let nats = Nats::start();
    let mut announced = Stranger::subscribed(&nats, "forebay.main.api.hosts");
    let host = node(&nats.url(), TOOLBOX, ONE_WORKER).server("drain_max = \"500ms\"");
    let host = host.work_on("api").start();
    let mut wait_for_room = |has_room: bool| {
        loop {
            let announcement = serde_json::from_str(&announced.line()).unwrap_or(Value::Null);
            if announcement["room"]
                .as_u64()
                .is_some_and(|room| (room > 0) == has_room)
            {
                return announcement["draining"] == true;
            }
        }
    };
    assert!(!wait_for_room(true));
    host.terminate();
    assert!(wait_for_room(false));
}

#[test]
fn a_host_that_falls_silent_is_given_up_and_comes_back() {
    let nats = Nats::start();
    let front = front(&nats, TOOLBOX, PATIENT);
    let silent = host(&nats, TOOLBOX, PATIENT);
    wait_for_hosts(&front, 1);
    let mut running = front.connect();
    running.request("GET", "/wait/gate/running");
    wait_for_note(&silent, "begin running");
    silent.process().signal(Signal::STOP);
    let _other = host(&nats, TOOLBOX, PATIENT);
    wait_for_hosts(&front, 2);
    assert_eq!(front.get("/pid").status, 200, "the other host has room");
    front.wait_for_log(&["host detached", "has not announced itself"]);
    assert_eq!(running.response().status, 502);
    silent.process().signal(Signal::CONT);
    wait_for_note(&silent, "abort running");
    wait_for_hosts(&front, 2);
}

#[test]
fn a_front_end_that_is_killed_leaves_nothing_running() {
    let nats = Nats::start();
    let mut front = front(&nats, TOOLBOX, PATIENT);
    let host = host(&nats, TOOLBOX, PATIENT);
    wait_for_hosts(&front, 1);
    let mut client = front.connect();
    client.request("GET", "/wait/gate/left");
    wait_for_note(&host, "begin left");
    front.kill();
    wait_for_note(&host, "abort left");
}

#[test]
fn forged_and_incompatible_announcements_attach_nothing() {
    let nats = Nats::start();
    let front = front(&nats, TOOLBOX, "");
    wait_until("the front end is connected", || {
        front.get("/pid").detail().contains("none announces itself")
    });
    let announce = |id: &str, protocol: u32| announce(&nats, id, protocol, 9);
    for id in ["*", ">", "a.b", "0123456789abcdef.>", "0123456789abcde\\n"] {
        announce(id, 1);
    }
    nats.publish("forebay.main.api.hosts", "no JSON");
    announce("0123456789abcdef", 99);
    front.wait_for_log(&["a host is not used", "speaks protocol 99"]);
    assert!(hosts(&front, "starting").is_empty() && hosts(&front, "ready").is_empty());
    let refused = front.get("/pid");
    assert_eq!(refused.status, 503);
    assert!(
        refused.detail().contains("speaks protocol 99"),
        "{}",
        refused.detail()
    );
    // One that is well-formed, but where nobody is.
    announce("fedcba9876543210", 1);
    front.wait_for_log(&["host detached", "the other side is gone"]);
    let _host = host(&nats, TOOLBOX, "");
    wait_for_hosts(&front, 1);
    assert_eq!(front.get("/pid").status, 200);
}

#[test]
fn bytes_that_are_no_frames_cost_their_sender_its_link_alone() {
    let nats = Nats::start();
    let front = front(&nats, TOOLBOX, "");
    let host = host(&nats, TOOLBOX, "");
    wait_for_hosts(&front, 1);
    let id = host_id(&front);
    let subject = format!("forebay.main.api.host.{id}.0000000000000000");
    nats.publish(&subject, "\0\0\0\0\0\0\0\0 this is no frame, but long enough");
    host.wait_for_log(&["front end detached", "broken the protocol"]);
    nats.publish(&subject, "short");
    assert_eq!(front.get("/pid").status, 200);
}

#[test]
fn a_job_that_never_reached_its_host_fails_long_before_its_deadline() {
    let nats = Nats::start();
    let front = front(&nats, TOOLBOX, PATIENT);
    let id = "fedcba9876543210";
    let mut host = Stranger::subscribed(&nats, &format!("forebay.main.api.host.{id}.*"));
    let (end, is_over) = mpsc::channel::<()>();
    thread::scope(|scope| {
        // It ends when `end` is dropped, also by a failure.
        let nats = &nats;
        scope.spawn(move || {
            while is_over.recv_timeout(Duration::from_millis(100)) == Err(RecvTimeoutError::Timeout) {
                announce(nats, id, 1, 4);
            }
        });
        let end = end;
        let (link, 0, init) = host.message() else {
            panic!("the first message has another number")
        };
        let Ok(Split::Whole { frame, .. }) = split_frame(&init) else {
            panic!("{init:?} is no frame")
        };
        assert_eq!(frame.header.kind, FrameType::Init);
        let mut ready = Vec::new();
        let header = Header::link(FrameType::Ready, frame.header.generation);
        put_frame(&mut ready, &header, &[]);
        let back = link.replace(&format!("host.{id}"), "front") + ".frames";
        host.publish(&back, 0, &ready);
        wait_for_hosts(&front, 1);
        let mut client = front.connect();
        client.request("GET", "/pid");
        let (_, mut number, mut bytes) = host.message();
        while bytes.is_empty() {
            // The link was tried before the job was sent.
            (_, number, bytes) = host.message();
        }
        // As if that had been lost: the host announces itself, and has sent no answer.
        let (_, next, bytes) = host.message();
        assert_eq!(
            (next, bytes.len()),
            (number + 1, 0),
            "by which the host sees the gap"
        );
        host.publish(&back, u64::MAX, &[]);
        assert_eq!(client.response().status, 502);
        drop(end);
    });
}

#[test]
fn a_host_ends_links_that_it_does_not_know() {
    let nats = Nats::start();
    let front = front(&nats, TOOLBOX, "");
    let _host = host(&nats, TOOLBOX, "");
    wait_for_hosts(&front, 1);
    let mut stranger = Stranger::subscribed(&nats, "forebay.main.api.front.0000000000000000.*");
    let subject = format!("forebay.main.api.host.{}.0000000000000000", host_id(&front));
    // The end of a link is not answered: two processes could go on with that forever.
    for number in [u64::MAX, 3] {
        stranger.publish(&subject, number, &[]);
    }
    let (_, number, _) = stranger.message();
    assert_eq!(number, u64::MAX);
    assert!(!stranger.hears(Duration::from_millis(300)), "once");
    assert_eq!(front.get("/pid").status, 200);
}

#[test]
fn clusters_on_one_broker_see_only_their_own_hosts() {
    let nats = Nats::start();
    let named = |name: &str| {
        let own = format!("[cluster]\nname = \"{name}\"\n");
        let keys = config(&nats.url(), "").replace("[cluster]\n", &own);
        forebay_testkit::Setup::new(&keys)
            .file("api.mjs", TOOLBOX)
            .admin()
    };
    let fronts = ["one", "other"].map(|name| named(name).start());
    let hosts = ["one", "other"].map(|name| named(name).work_on("api").start());
    for (front, host) in fronts.iter().zip(&hosts) {
        wait_for_hosts(front, 1);
        let pid: u32 = front.get("/pid").text().parse().expect("a process id");
        assert!(host.workers().iter().any(|worker| worker.pid == pid));
    }
}

#[test]
fn a_host_whose_workers_do_not_start_is_no_host_until_they_do() {
    let nats = Nats::start();
    let front = front(&nats, TOOLBOX, "");
    let host = host(
        &nats,
        "throw new Error('not today'); export default () => 'never';",
        "",
    );
    wait_until("the front end says why", || {
        let refused = front.get("/pid");
        refused.status == 503 && refused.detail().contains("not today")
    });
    host.folder().write("api.mjs", TOOLBOX);
    wait_until("it works", || front.get("/pid").status == 200);
}

#[test]
fn a_host_refuses_what_it_cannot_work_on() {
    let nats = Nats::start();
    let front = node(&nats.url(), TOOLBOX, "").start();
    for (pool, why) in [("other", "no [pool.other]"), ("api", "no [cluster]")] {
        if pool == "api" {
            front.reconfigure("[pool.api]\nhandler = \"api.mjs\"\n");
        }
        let refused = front.command(&["work", "--pool", pool]);
        assert_eq!(refused.status.code(), Some(2));
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(error.contains(why), "{error}");
    }
}
