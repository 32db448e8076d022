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

/// The job on a machine with two cores, where `local` is this machine and `far` is not.
fn job_of(line: &str) -> Result<Job, String> {
    let environment = Environment {
        cores: 2,
        resolve: &|url: &Url| match url.host.as_str() {
            "127.0.0.1" | "::1" | "local" => Ok(([127, 0, 0, 1], url.port).into()),
            "far" => Ok(([10, 0, 0, 1], url.port).into()),
            _ => Err(io::Error::new(io::ErrorKind::NotFound, "no such host")),
        },
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
    job(&options(line)?, &environment).map_err(text)
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
    let open = job_of("local --rate 5k").unwrap();
    assert_eq!(open.load.pace, Pace::Open { per_second: 5_000.0 });
    let stages = job_of("local --stage 10s:1..20,5s:20 --stage 1s:100/s").unwrap();
    assert_eq!(stages.until.duration, Some(Duration::from_secs(16)));
    assert_eq!((stages.connections_max, stages.load.connections), (64, 1));
}

#[test]
fn what_answers_must_be_is_read() {
    let statuses = job_of("local --expect-status 2xx,304").unwrap();
    assert_eq!(statuses.plan.expect.statuses, [200..=299, 304..=304]);
    let part = job_of("local --expect-body ~hello").unwrap();
    assert!(matches!(&part.plan.expect.checks[..], [Check::Contains(text)] if text == b"hello"));
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
        ("local --pipeline 4 --no-keepalive", "pipelining needs keep-alive"),
        ("local --pipeline 2000", "at most 1024"),
        ("local --rate 0", "expected requests a second"),
        ("local --stage 1s:0", "no connections at any time"),
        ("local --stage 1s:5 -d 5", "cannot be used with"),
        ("local -d 0", "more than nothing"),
        ("local -b x --body-file y", "cannot be used with"),
        ("local --body-file none", "cannot read none: no such file"),
        ("local -H Accept", "expected \"Name: value\""),
        ("local -m G@T", "not a method"),
        ("local --expect-body regex:x", "`regex:` is no longer there"),
        ("local --find-rate", "--slo"),
        ("local --user ann", "has no colon"),
        ("local --cacert a.pem", "certificates need https"),
    ] {
        match job_of(line) {
            Err(wrong) => assert!(wrong.contains(complaint), "{line}: {wrong}"),
            Ok(_) => panic!("`{line}` is accepted"),
        }
    }
    assert!(job_of("far --allow-remote").is_ok());
}
