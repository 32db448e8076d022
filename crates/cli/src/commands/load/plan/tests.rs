use clap::Parser as _;

use super::*;

#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

/// A command line without `forebay load`.
fn options(line: &str) -> Result<Options, String> {
    let words = std::iter::once("load").chain(line.split_whitespace());
    Line::try_parse_from(words)
        .map(|line| line.options)
        .map_err(|error| error.to_string())
}

/// On a machine with two cores where `local` is this machine and `far` is not.
fn job_of(line: &str) -> Result<Job, String> {
    let around = Surroundings {
        cores: 2,
        resolve: &|url: &Url| match url.host.as_str() {
            "127.0.0.1" | "::1" | "local" => Ok(([127, 0, 0, 1], url.port).into()),
            "far" => Ok(([10, 0, 0, 1], url.port).into()),
            _ => Err(io::Error::new(io::ErrorKind::NotFound, "no such host")),
        },
        env: &|_| None,
        read: &|file| match file.to_str() {
            Some("body.json") => Ok(b"{}".to_vec()),
            _ => Err(io::Error::new(io::ErrorKind::NotFound, "no such file")),
        },
        ports: Some(1_000),
    };
    let text = |error: anyhow::Error| {
        let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
        causes.join(": ")
    };
    job(&options(line)?, &around).map_err(text)
}

#[test]
fn defaults_are_those_of_a_careful_expert() {
    let job = job_of("local:8080/x").unwrap();
    assert_eq!(
        (job.plan.threads, job.load.connections, job.load.pace),
        (1, 64, Pace::Closed)
    );
    assert_eq!(
        (job.until.duration, job.until.requests),
        (Some(Duration::from_secs(10)), None)
    );
    assert_eq!(job.warm_up, WarmUp::AUTO);
    assert_eq!(
        (job.run.method.as_str(), job.run.urls[0].as_str()),
        ("GET", "http://local:8080/x")
    );
    assert!(job.plan.keep_alive);
}

#[test]
fn a_count_alone_has_no_time_and_no_warm_up() {
    let job = job_of("local -n 10k").unwrap();
    assert_eq!(
        (job.until.duration, job.until.requests, job.warm_up),
        (None, Some(10_000), WarmUp::NONE)
    );
    let both = job_of("local -n 5 -d 1m --warmup 2s").unwrap();
    assert_eq!(
        (both.until.duration, both.until.requests),
        (Some(Duration::from_mins(1)), Some(5))
    );
    assert_eq!(both.warm_up, WarmUp::For(Duration::from_secs(2)));
    let steady = job_of("local -n 5 --warmup auto").unwrap();
    assert_eq!(steady.warm_up, WarmUp::AUTO);
    let wrong = job_of("local --warmup warm").unwrap_err();
    assert!(
        wrong.contains("found \"warm\", expected a duration") && wrong.contains("or auto"),
        "{wrong}"
    );
}

#[test]
fn a_body_is_posted() {
    for line in ["local -b x", "local --body-file body.json"] {
        assert_eq!(job_of(line).unwrap().run.method, "POST", "{line}");
    }
    assert_eq!(job_of("local -b x -m PUT").unwrap().run.method, "PUT");
    assert_eq!(job_of("local --body-file body.json").unwrap().run.body_bytes, 2);
}

#[test]
fn rates_and_stages_become_loads() {
    let open = job_of("local --rate 5k --arrivals poisson").unwrap();
    let arrivals = Arrivals::Poisson;
    assert_eq!(
        open.load.pace,
        Pace::Open {
            per_second: 5_000.0,
            arrivals
        }
    );
    let searched = job_of("local --find-rate --slo p99<1s --arrivals poisson").unwrap();
    assert!(
        matches!(
            searched.load.pace,
            Pace::Open {
                arrivals: Arrivals::Poisson,
                ..
            }
        ),
        "{searched:?}"
    );
    let each = job_of("local -c 4 --rate-per-connection 10").unwrap();
    assert_eq!(each.load.pace, Pace::PerConnection { per_second: 10.0 });
    let stages = job_of("local --stage 10s:1..20,5s:20 --stage 1s:100/s").unwrap();
    assert_eq!(stages.until.duration, Some(Duration::from_secs(16)));
    assert_eq!((stages.connections_max, stages.load.connections), (64, 1));
}

#[test]
fn connections_are_opened_at_a_rate_of_their_own() {
    let job = job_of("local -c 100 --connect-rate 600/m").unwrap();
    assert_eq!(
        (job.plan.connect_rate, job.run.connect_rate),
        (Some(10.0), Some(10.0))
    );
    let mut users = options("local").unwrap();
    users.old.ramp_up = Some(Duration::from_secs(5));
    assert_eq!(connect_rate(&users, 20), Some(4.0));
    users.old.ramp_up = Some(Duration::ZERO);
    assert_eq!(connect_rate(&users, 20), None);
}

#[test]
fn what_answers_must_be_is_read() {
    let statuses = job_of("local --expect-status 2xx,304").unwrap();
    assert_eq!(statuses.plan.expect.statuses, [200..=299, 304..=304]);
    let part = job_of("local --expect-body ~hello").unwrap();
    assert!(matches!(&part.plan.expect.checks[..], [Check::Contains(text)] if text == b"hello"));
    let json = job_of("local --expect-json {\"a\":1}").unwrap();
    assert!(
        matches!(&json.plan.expect.checks[..], [Check::Json(value)] if *value == serde_json::json!({"a": 1}))
    );
}

#[test]
fn a_proxy_is_connected_to_and_asked_for_the_server_or_told_whole_urls() {
    for line in [
        "http://localhost:8080/x --proxytunnel",
        "http://localhost:8080/x --http2",
        "https://localhost:8080/x --insecure",
    ] {
        let job = job_of(&format!("{line} --proxy me:secret@local:3128")).unwrap();
        let lane = &job.plan.lanes[0];
        assert_eq!(lane.address.to_string(), "127.0.0.1:3128");
        let tunnel = lane.link.tunnel.as_ref().unwrap();
        assert_eq!(
            tunnel.authorization.as_deref(),
            Some("Basic bWU6c2VjcmV0"),
            "{line}"
        );
        assert_eq!(tunnel.authority, "localhost:8080");
    }
    let job = job_of("http://localhost:8080/x --proxy local:3128").unwrap();
    let link = &job.plan.lanes[0].link;
    assert_eq!(
        (&link.tunnel, link.through_proxy.as_deref()),
        (&None, Some("localhost:8080"))
    );
}

#[test]
fn connections_go_where_connect_to_says_and_requests_say_what_the_url_says() {
    let job =
        job_of("http://far:8080/x http://local/ --connect-to far:8080:local:81 --connect-to far::local:82")
            .unwrap();
    let addresses = job.plan.lanes.iter().map(|lane| lane.address.to_string());
    assert_eq!(addresses.collect::<Vec<_>>(), ["127.0.0.1:81", "127.0.0.1:80"]);
    assert_eq!(job.run.urls[0], "http://far:8080/x");
    assert!(job_of("far --connect-to elsewhere:80:local:81").is_err());
}

#[test]
fn several_local_addresses_give_as_many_more_connections() {
    let job = job_of("local -c 3000 --bind 127.0.0.2,127.0.0.3 --bind 127.0.0.4").unwrap();
    assert_eq!(job.plan.lanes[0].link.bind.len(), 3);
}

#[test]
fn impossible_options_are_refused_with_the_reason() {
    for (line, complaint) in [
        ("", "a URL is missing"),
        ("ftp://local/", "accepted are http and https"),
        ("nowhere", "cannot find the address of nowhere: no such host"),
        ("far", "10.0.0.1:80 is not this machine"),
        ("local -c 0", "at least 1"),
        ("local -c 2 -t 3", "3 threads are too many for 2 connections"),
        (
            "local -c 1001",
            "the system gives out 1000; give it more with: sysctl -w",
        ),
        ("local --pipeline 4 --no-keepalive", "pipelin"),
        ("local --pipeline 2000", "at most 1024"),
        ("local --rate 0", "expected requests a second"),
        ("local --http1.0 --http2", "cannot be used with"),
        ("local --http1.0 --chunked -b x", "cannot be used with"),
        ("local --http1.0 --pipeline 2", "--pipeline needs HTTP/1.1"),
        ("local --connect-rate 0", "expected connections a second"),
        ("local --connect-rate 5 --find-best", "cannot be used with"),
        ("local --rate 1 --rate-per-connection 1", "cannot be used with"),
        ("local --stage 1s:0", "no connections at any time"),
        ("local --stage 1s:5 -d 5", "cannot be used with"),
        ("local -d 0", "more than nothing"),
        (
            "local --first-byte-timeout 10s",
            "the time-out for the first byte is 10s, and a whole answer is waited for no longer than 10s",
        ),
        (
            "local --timeout 1s --idle-timeout 2s",
            "the time-out for silence within an answer is 2s",
        ),
        ("local -b x --body-file y", "cannot be used with"),
        ("local --body-file none", "cannot read none: no such file"),
        ("local -H Accept", "expected \"Name: value\""),
        ("local -m G@T", "not a method"),
        (
            "local --json --csv",
            "two results cannot both go to standard output",
        ),
        ("local --expect-json {", "is not JSON"),
        (
            "127.0.0.1:1 --dns-each",
            "--dns-each needs a host name; 127.0.0.1 is an address",
        ),
        ("[::1]:1 --dns-each", "::1 is an address"),
        (
            "local --dns-each --connect-to ::local:81",
            "--dns-each and --connect-to contradict each other",
        ),
        (
            "local --arrivals poisson",
            "--arrivals needs --rate or --find-rate",
        ),
        (
            "local --rate 1 --arrivals burst",
            "expected uniform, poisson, or burst:N",
        ),
        ("local --rate 1 --arrivals burst:0", "the size of a burst is 0"),
        (
            "local --find-rate --slo p99<1s --arrivals burst:0",
            "the size of a burst is 0",
        ),
        ("local --rate 1 --arrivals burst:200000", "at most 100000"),
        (
            "local --follow-redirects 3 --pipeline 2",
            "redirects are followed with one request at a time on a connection; the pipelining depth is 2",
        ),
        ("local --follow-redirects 0", "0 is not in 1..=100"),
        ("local --aws-sigv4 aws:r:s", "--user"),
        (
            "local --aws-sigv4 aws --user a:b",
            "expected PROVIDER:REGION:SERVICE",
        ),
        ("local --aws-sigv4 aws:r:s --user a", "expected KEY:SECRET"),
        ("local --debug --find-best", "cannot be used with"),
        ("local --replay", "--replay needs --access-log or --urls"),
        ("local --replay-speed 2x", "--replay"),
        ("local --access-log a --replay --rate 5", "cannot be used with"),
        ("local --find-rate", "--slo"),
        ("local --on-port", "CMD"),
        ("local --proxy https://local:1", "without TLS"),
        ("local --proxy user@local:1", "no colon"),
        ("local --bind here", "invalid IP address"),
        ("local --bind ::1", "not of the same family"),
        (
            "local -c 2001 --bind 127.0.0.2,127.0.0.3",
            "or use several local addresses",
        ),
        ("local --connect-to a:1:b", "expected HOST:PORT:HOST:PORT"),
        ("local --connect-to ::a:1 --proxy local:1", "cannot be used with"),
        (
            "https://local --insecure --tls-ciphers RC4",
            "`RC4` is no cipher suite that is spoken; there are TLS_AES_",
        ),
        (
            "https://local --insecure --tls-max 1.2 --tls-ciphers TLS_AES_128_GCM_SHA256",
            "none of the cipher suites is for TLS from version 1.2 up to 1.2",
        ),
        (
            "local --tls-ciphers TLS_AES_128_GCM_SHA256",
            "--tls-ciphers needs https",
        ),
        ("local --tls-min 1.1", "expected 1.2 or 1.3"),
        ("local --chunked", "--chunked needs a body"),
        ("local --cookie session", "is not a cookie"),
        ("local --user ann", "has no colon"),
        ("local --ipv4 --ipv6", "cannot be used with"),
        ("local --cert a", "--key"),
        ("local --cacert a.pem", "certificates need https"),
    ] {
        match job_of(line) {
            Err(wrong) => assert!(wrong.contains(complaint), "{line}: {wrong}"),
            Ok(_) => panic!("`{line}` is accepted"),
        }
    }
    assert!(job_of("far --allow-remote").is_ok());
}
