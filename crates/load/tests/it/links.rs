//! What lies between the socket and the requests besides TLS: proxies, and the local address.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use forebay_load::{
    Session,
    engine::{Course, Until},
    failure::Class,
    plan::{Lane, Link, Load, Names, Pace, PlanError, Tunnel},
};

use crate::tls_peer::{
    Authority, FOREVER, Peer, answer_all, example, failures, get, plan, read_request, requests, run,
    run_until_failure, secure,
};

/// A proxy that connects on to one server for whoever has the password.
fn proxy(server: std::net::SocketAddr) -> (Peer, Arc<AtomicU64>) {
    let tunnels: Arc<AtomicU64> = Arc::default();
    let counted = tunnels.clone();
    let peer = Peer::start(move |mut client| {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            if !matches!(client.read(&mut byte), Ok(1)) {
                return;
            }
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        assert!(
            head.starts_with("CONNECT localhost:443 HTTP/1.1\r\nhost: localhost:443\r\n"),
            "{head}"
        );
        if !head.contains("proxy-authorization: Basic YTpi\r\n") {
            let _ =
                client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n");
            return;
        }
        counted.fetch_add(1, Ordering::Relaxed);
        let mut onward = TcpStream::connect(server).unwrap();
        // In pieces, as they may come.
        for part in [
            &b"HTTP/1.1 200 Conn"[..],
            b"ection established\r\nvia: test\r\n",
            b"\r\n",
        ] {
            client.write_all(part).unwrap();
        }
        let (mut from, mut to) = (client.try_clone().unwrap(), onward.try_clone().unwrap());
        let back = std::thread::spawn(move || {
            let _ = std::io::copy(&mut onward, &mut client);
            let _ = client.shutdown(std::net::Shutdown::Write);
        });
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
        back.join().unwrap();
    });
    (peer, tunnels)
}

fn tunnel(authorization: Option<&str>) -> Tunnel {
    Tunnel {
        authority: "localhost:443".into(),
        authorization: authorization.map(Into::into),
    }
}

#[test]
fn tls_goes_through_a_proxy_that_lets_it() {
    let authority = Authority::new();
    let served = Arc::default();
    let server = Peer::tls(
        authority.localhost().server(&[&rustls::version::TLS13]),
        answer_all(10, &served),
    );
    let (proxy, tunnels) = proxy(server.address);
    let link = |authorization| Link {
        tunnel: Some(tunnel(authorization)),
        ..secure(&authority.trusted())
    };
    let (stretch, _) = run(
        plan(proxy.lane(link(Some("Basic YTpi")), &get())),
        3,
        requests(300),
    );
    assert_eq!(
        (failures(&stretch), stretch.total.answers),
        (vec![], 300),
        "{:?}",
        stretch.examples
    );
    assert_eq!(
        (served.load(Ordering::Relaxed), tunnels.load(Ordering::Relaxed)),
        (300, 3)
    );

    let stretch = run_until_failure(plan(proxy.lane(link(None), &get())));
    assert!(
        example(&stretch, Class::Connect).contains("407 Proxy Authentication Required"),
        "{:?}",
        stretch.examples
    );
    assert_eq!((stretch.total.sent, stretch.total.connects), (0, 0));
}

#[test]
fn a_proxy_that_answers_something_else_is_a_failed_connection() {
    for (answer, why) in [
        (&b"SSH-2.0-OpenSSH\r\n"[..], "not the head of an HTTP/1 answer"),
        (b"HTTP/1.1 200 OK\r\n\r\nand more", "more than its answer"),
        (b"", "before it answered"),
    ] {
        let proxy = Peer::start(move |mut client| {
            let _ = read_request(&mut client);
            let _ = client.write_all(answer);
        });
        let link = Link {
            tunnel: Some(tunnel(None)),
            ..Link::default()
        };
        let stretch = run_until_failure(plan(proxy.lane(link, &get())));
        assert!(
            example(&stretch, Class::Connect).contains(why),
            "{:?}",
            stretch.examples
        );
    }
}

#[test]
fn a_proxy_is_no_way_to_another_machine_without_leave() {
    let proxy = Peer::start(|_| {});
    for (authority, local) in [
        ("localhost:443", true),
        ("127.0.0.1:443", true),
        ("[::1]:443", true),
        ("example.test:443", false),
        ("10.0.0.1:443", false),
    ] {
        let tunnel = Tunnel {
            authority: authority.into(),
            authorization: None,
        };
        let link = Link {
            tunnel: Some(tunnel),
            ..Link::default()
        };
        let plan = plan(proxy.lane(link, &get()));
        let refused =
            matches!(plan.check(1, false), Err(PlanError::Remote { address }) if address == authority);
        assert_eq!(refused, !local, "{authority}");
        assert_eq!(plan.check(1, true), Ok(()));
    }
}

#[test]
fn connections_come_from_the_address_that_was_asked_for() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = seen.clone();
    let server = Peer::start(move |mut client| {
        if let Ok(address) = client.peer_addr() {
            noted.lock().unwrap().push(address.ip().to_string());
        }
        while read_request(&mut client).is_some() {
            let _ = client.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
        }
    });
    let locals = ["127.0.0.7", "127.0.0.8", "127.0.0.9"];
    let link = Link {
        bind: locals.map(|local| local.parse().unwrap()).into(),
        ..Link::default()
    };
    let mut plan = plan(server.lane(link.clone(), &get()));
    // However connections are shared among threads and URLs.
    (plan.threads, plan.requests_each) = (2, Some(1));
    plan.lanes.push(plan.lanes[0].clone());
    let (stretch, _) = run(plan, 12, requests(12));
    assert_eq!((failures(&stretch), stretch.total.answers), (vec![], 12));
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_unstable();
    assert_eq!(seen, locals.map(|local| [local; 4]).concat());
}

#[test]
fn a_local_address_of_another_family_is_refused() {
    let server = Peer::start(|_| {});
    let link = Link {
        bind: vec!["127.0.0.7".parse().unwrap(), "::1".parse().unwrap()],
        ..Link::default()
    };
    let refused = plan(server.lane(link, &get())).check(1, false);
    assert!(
        matches!(refused, Err(PlanError::Bind { local, .. }) if local.is_ipv6()),
        "{refused:?}"
    );
}

/// A lane to `known`, whose name leads to what a function says.
fn named(known: &Peer, names: impl Fn() -> std::io::Result<SocketAddr> + Send + Sync + 'static) -> Lane {
    let link = Link {
        names: Some(Names::new(names)),
        ..Link::default()
    };
    known.lane(link, &get())
}

/// A server without TLS that answers one request on each connection, and how many it has answered.
fn counting() -> (Peer, Arc<AtomicU64>) {
    let served: Arc<AtomicU64> = Arc::default();
    let counted = served.clone();
    let peer = Peer::start(move |mut socket| {
        if read_request(&mut socket).is_some() {
            counted.fetch_add(1, Ordering::Relaxed);
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            // Whoever asked may have gone.
            let _ = socket.write_all(answer);
        }
    });
    (peer, served)
}

#[test]
fn a_name_is_resolved_anew_for_each_connection() {
    let [(one, at_one), (two, at_two)] = [counting(), counting()];
    let (addresses, asked) = ([one.address, two.address], AtomicU64::new(0));
    let lane = named(&one, move || {
        Ok(addresses[asked.fetch_add(1, Ordering::Relaxed) as usize % 2])
    });
    let mut plan = plan(lane);
    plan.keep_alive = false;
    let (stretch, _) = run(plan, 2, requests(40));
    assert_eq!(failures(&stretch), [], "{:?}", stretch.examples);
    let (at_one, at_two) = (at_one.load(Ordering::Relaxed), at_two.load(Ordering::Relaxed));
    assert_eq!(at_one + at_two, 40);
    // A connection more or less may have been opened without carrying a request.
    assert!(at_one.abs_diff(at_two) <= 4, "{at_one} and {at_two}");
}

#[test]
fn a_name_that_leads_nowhere_fails_its_connections_alone() {
    let (peer, served) = counting();
    let (address, asked) = (peer.address, AtomicU64::new(0));
    let lane = named(&peer, move || match asked.fetch_add(1, Ordering::Relaxed) {
        1 => Err(std::io::Error::other("the resolver has no answer")),
        3 => Ok(([192, 0, 2, 1], 80).into()),
        _ => Ok(address),
    });
    let mut plan = plan(lane);
    plan.keep_alive = false;
    let (stretch, _) = run(plan, 1, requests(10));
    assert_eq!(failures(&stretch), [(Class::Connect, 2)]);
    assert_eq!(served.load(Ordering::Relaxed), 8);
    assert!(
        example(&stretch, Class::Connect)
            .contains("its name could not be resolved: the resolver has no answer"),
        "{:?}",
        stretch.examples
    );
}

#[test]
fn a_name_never_leads_from_this_machine_to_another() {
    let (peer, _) = counting();
    let lane = named(&peer, || Ok(([192, 0, 2, 1], 80).into()));
    let stretch = run_until_failure(plan(lane));
    assert!(
        example(&stretch, Class::Connect).contains("192.0.2.1:80, which is not this machine"),
        "{:?}",
        stretch.examples
    );
}

#[test]
fn a_resolver_that_does_not_answer_ends_with_the_time_to_connect_and_holds_nobody_up() {
    let (peer, served) = counting();
    let (address, asked) = (peer.address, AtomicU64::new(0));
    let (end, stalls) = std::sync::mpsc::channel::<()>();
    let stalls = Mutex::new(stalls);
    let lane = named(&peer, move || {
        if asked.fetch_add(1, Ordering::Relaxed) == 0 {
            // Until the test has seen enough.
            let _ = stalls.lock().unwrap().recv();
        }
        Ok(address)
    });
    let mut plan = plan(lane);
    plan.connect_timeout = Duration::from_millis(50);
    let mut session = Session::start(plan).unwrap();
    let load = Load {
        connections: 2,
        pace: Pace::Closed,
    };
    let mut stretch = session.steer(load, Until::passed(FOREVER), &mut |stretch| match stretch
        .total
        .failures
        .total()
    {
        0 => Course::On,
        _ => Course::End,
    });
    stretch.absorb(&session.finish());
    drop(end);
    assert_eq!(failures(&stretch), [(Class::ConnectTimeout, 1)]);
    assert_eq!(
        example(&stretch, Class::ConnectTimeout),
        format!("{address}: its name was not resolved in time")
    );
    assert_eq!(stretch.total.answers, served.load(Ordering::Relaxed));
    assert!(
        stretch.total.answers > 0,
        "the other connection has gone on meanwhile"
    );
}
