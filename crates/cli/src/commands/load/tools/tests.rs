use std::time::Duration;

use forebay_load::{search::WarmUp, tls};

use super::*;

/// What a command line asks for; its words are apart by spaces, but for those within single quotes.
fn read(line: &str) -> Result<Options, String> {
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let tool = Tool::ALL.into_iter().find(|tool| tool.name() == name).unwrap();
    let mut words: Vec<OsString> = Vec::new();
    for (at, part) in rest.split('\'').enumerate() {
        if at % 2 == 1 {
            words.push(part.into());
        } else {
            words.extend(part.split_whitespace().map(OsString::from));
        }
    }
    match tool.read(&words)? {
        Line::Run(options) => Ok(*options),
        Line::Help(text) => Err(text),
    }
}

fn seconds(options: &Options) -> Option<f64> {
    options.duration.as_ref().map(Duration::as_secs_f64)
}

#[test]
fn the_command_lines_of_the_founding_benchmarks_mean_what_they_meant() {
    for (line, url, connections, threads, duration, count, keep_alive) in [
        (
            "autocannon -c 1 -d 1 http://localhost:3000/local",
            "http://localhost:3000/local",
            1,
            1,
            Some(1.0),
            None,
            true,
        ),
        (
            "autocannon -c 8 -d 10 http://localhost:3000/local",
            "http://localhost:3000/local",
            8,
            1,
            Some(10.0),
            None,
            true,
        ),
        (
            "autocannon -c 128 -d 5 -w 4 http://localhost:8080/local",
            "http://localhost:8080/local",
            128,
            4,
            Some(5.0),
            None,
            true,
        ),
        (
            "hose -t 2 -c 20 -p json/000000000000000b 127.0.0.1:6363",
            "http://127.0.0.1:6363/json/000000000000000b",
            20,
            2,
            Some(1.0),
            None,
            false,
        ),
        (
            "hose -t 2 -c 20 -p v1/Article/11 127.0.0.1:6363 -k",
            "http://127.0.0.1:6363/v1/Article/11",
            20,
            2,
            Some(1.0),
            None,
            true,
        ),
        (
            "hose -p 'json/000000000000000b' -d 1.0 -t 2 127.0.0.1:6363",
            "http://127.0.0.1:6363/json/000000000000000b",
            1000,
            2,
            Some(1.0),
            None,
            false,
        ),
        (
            "ab -p benchmark1.json -T application/json -n 1000 -c 200 http://localhost:28002/execute/internal/workflow",
            "http://localhost:28002/execute/internal/workflow",
            200,
            1,
            None,
            Some(1000),
            false,
        ),
        (
            "go-wrk -t 2 -m 10000 http://localhost:8080/queries?queries=10",
            "http://localhost:8080/queries?queries=10",
            100,
            2,
            None,
            Some(10_000),
            true,
        ),
        (
            "jmeter --threads 2,4,8 --ramp-up 0 --loops forever http://localhost:8080/queries",
            "http://localhost:8080/queries",
            1,
            1,
            Some(15.0),
            None,
            true,
        ),
    ] {
        let options = read(line).unwrap();
        assert_eq!(options.url, [url], "{line}");
        assert_eq!(
            (options.connections, options.threads),
            (Some(connections), Some(threads)),
            "{line}"
        );
        assert_eq!((seconds(&options), options.count), (duration, count), "{line}");
        assert_eq!(options.no_keepalive, !keep_alive, "{line}");
        assert_eq!(options.warmup, Some(WarmUp::NONE), "{line}");
    }
    assert_eq!(
        read("jmeter --threads 2,4,8 --loops forever h")
            .unwrap()
            .old
            .steps,
        [2, 4, 8]
    );
    let posts = read("ab -p benchmark1.json -T application/json -n 1000 -c 200 h").unwrap();
    assert_eq!(
        (posts.method.as_deref(), posts.body_file),
        (Some("POST"), Some("benchmark1.json".into()))
    );
    assert_eq!(
        posts.headers,
        [("Content-Type".to_owned(), "application/json".to_owned())]
    );
}

#[test]
fn flags_are_written_as_the_tool_takes_them() {
    let wrk = read("wrk -t4 -c400 -d30s --latency --timeout=8 http://h/").unwrap();
    assert_eq!(
        (wrk.threads, wrk.connections, seconds(&wrk)),
        (Some(4), Some(400), Some(30.0))
    );
    assert!(wrk.old.more == [Extra::Latency] && wrk.timeout == Some(Duration::from_secs(8)));
    let ab = read("ab -kqc 10 -n100 -C a=1 -C b=2 -A me:secret http://h/").unwrap();
    assert!(!ab.no_keepalive && ab.quiet && ab.http10);
    assert_eq!((ab.connections, ab.count), (Some(10), Some(100)));
    assert_eq!(ab.cookies, ["a=1", "b=2"]);
    assert_eq!(ab.user.as_deref(), Some("me:secret"));
    let go = read("go-wrk -c=5 -k=true -H 'A: 1\\nB: 2' -n 20 http://h/").unwrap();
    assert!(go.no_keepalive);
    assert_eq!(
        (go.connections, go.count, go.headers.len()),
        (Some(5), Some(20), 2)
    );
    assert!(!read("go-wrk -k=false http://h/").unwrap().no_keepalive);
    let cannon = read("autocannon -W [ -c 1 -d 3 ] -d 1m -r 5 --on-port / -- node server.mjs -c 7").unwrap();
    assert_eq!(
        (cannon.warmup, seconds(&cannon)),
        (Some(WarmUp::For(Duration::from_secs(3))), Some(60.0))
    );
    assert_eq!((cannon.url, cannon.command.len()), (vec!["/".to_owned()], 4));
    assert_eq!(read("wrk2 -R 2k http://h/").unwrap().rate, Some(2_000.0));
    let slowly = read("ab -R 20 -W 2 http://h/").unwrap();
    assert_eq!(slowly.connect_rate, Some(100.0));
    assert_eq!(read("ab -R 0 http://h/").unwrap().connect_rate, None);
    assert_eq!(
        read("jmeter --ramp-up 10 http://h/").unwrap().old.ramp_up,
        Some(Duration::from_secs(10))
    );
    assert_eq!(read("ab -t 5 http://h/").unwrap().count, Some(50_000));
    assert_eq!(read("ab -t 5 -n 10 http://h/").unwrap().count, Some(10));
}

#[test]
fn flags_that_need_more_than_one_option_set_them_all() {
    let cannon = read("autocannon -c 4 -M 25 -L 500 http://h/").unwrap();
    assert_eq!((cannon.count, seconds(&cannon)), (Some(100), Some(10.0)));
    assert_eq!((cannon.old.loops, cannon.old.sample_ms), (None, Some(500)));
    let fewer = read("autocannon -c 4 -M 25 -a 60 -d 1 http://h/").unwrap();
    assert_eq!((fewer.count, seconds(&fewer)), (Some(60), Some(1.0)));
    let ab = read("ab -P me:secret -X proxy:3128 -B 127.0.0.2 -f tls1.3 -v 1 http://h/").unwrap();
    assert_eq!(ab.proxy.as_deref(), Some("me:secret@proxy:3128"));
    assert_eq!(ab.bind, ["127.0.0.2".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(
        (ab.tls_min, ab.tls_max),
        (Some(tls::Version::Tls13), Some(tls::Version::Tls13))
    );
    let html = read("ab -x border=1 -z 'align=left' http://h/").unwrap();
    assert!(html.old.more.contains(&Extra::Machine));
    let attributes = html.old.attributes.unwrap();
    assert_eq!(
        (attributes.table, attributes.row, attributes.cell),
        (
            "border=1".to_owned(),
            "bgcolor=white".to_owned(),
            "align=left".to_owned()
        )
    );
}

#[test]
fn ab_chooses_ciphers_as_openssl_calls_them_and_may_leave_the_servers_name_out() {
    let chosen = |line: &str| read(line).unwrap().tls_ciphers.join(":");
    assert_eq!(
        chosen("ab -Z ECDHE-RSA-AES128-GCM-SHA256:TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 https://h/"),
        "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256:\
         TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
    );
    assert_eq!(
        chosen("ab -Z TLS_AES_128_GCM_SHA256 https://h/"),
        "TLS_AES_128_GCM_SHA256"
    );
    assert_eq!(chosen("ab -Z TLS_AES_128_GCM_SHA256 http://h/"), "");
    assert!(chosen("ab -Z DES https://h/").ends_with(":DES"));
    assert!(read("ab -I https://h/").unwrap().old.nameless);
    assert_eq!(read("ab -v4 http://h/").unwrap().old.verbosity, 4);
}

#[test]
fn a_number_as_go_wrks_method_is_the_count_and_a_note_says_so() {
    let count = read("go-wrk -t 2 -m 10000 http://h/").unwrap();
    assert_eq!((count.count, count.method), (Some(10_000), None));
    assert!(
        count.old.notes[0].contains("would send 1000 requests with the method 10000"),
        "{:?}",
        count.old.notes
    );
    let method = read("go-wrk -m PUT http://h/").unwrap();
    assert_eq!(
        (method.count, method.method.as_deref()),
        (Some(1000), Some("PUT"))
    );
    assert!(method.old.notes.is_empty());
}

#[test]
fn what_makes_no_sense_is_refused_with_a_sentence() {
    for (line, complaint) in [
        ("wrk -s pipeline.lua http://h/", "-s: Lua is not run"),
        ("wrk2 http://h/", "-R is missing"),
        ("ab -P me:secret http://h/", "-P: there is no proxy to tell it"),
        (
            "ab -B here http://h/",
            "-B: found \"here\", expected an IP address",
        ),
        ("ab -f SSL3 http://h/", "-f: found \"SSL3\", expected TLS1.2"),
        ("ab -v loud http://h/", "-v: found \"loud\", expected a level"),
        ("ab -n", "-n: its REQUESTS is missing"),
        ("ab -n many http://h/", "-n: found \"many\", expected a count"),
        ("ab http://h/ http://i/", "after the URL"),
        ("ab", "a URL is missing"),
        ("ab -J http://h/", "-J: no such flag"),
        ("autocannon", "a URL is missing"),
        (
            "autocannon --sampleInt=5 http://h/",
            "--sampleInt: found \"5\", expected 100 milliseconds or more",
        ),
        ("autocannon -W [ -c 1", "-W: the bracket is not closed"),
        ("autocannon -W [ -c 1 ] http://h/", "-W: found"),
        ("autocannon http://h/ -- node x.mjs", "needs --on-port"),
        ("autocannon --on-port=1 http://h/", "it takes no value"),
        ("hose -p x", "HOST:PORT is missing"),
        ("hose -b 4 h:1", "needs -k"),
        ("go-wrk -d m http://h/", "-d: there are no masters"),
        ("go-wrk -k=maybe http://h/", "expected true or false"),
        ("jmeter -n -t plan.jmx", "test plans (.jmx) are not read"),
        ("jmeter --ramp-up soon http://h/", "expected a duration"),
        ("ab -R 1.5 http://h/", "expected whole milliseconds"),
        ("jmeter --threads 2,0 http://h/", "--threads: found 0"),
    ] {
        match read(line) {
            Err(wrong) => assert!(wrong.contains(complaint), "{line}: {wrong}"),
            Ok(options) => panic!("{line}: {options:?}"),
        }
    }
}

#[test]
fn every_tool_lists_its_flags_and_none_twice() {
    for tool in Tool::ALL {
        let help = read(&format!("{} --help", tool.name())).unwrap_err();
        assert!(
            help.starts_with(&format!("Usage: forebay load {}", tool.name())),
            "{help}"
        );
        let mut names: Vec<&str> = tool
            .table()
            .flags
            .iter()
            .flat_map(|flag| flag.names)
            .copied()
            .collect();
        assert!(names.iter().all(|name| help.contains(name)));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{}", tool.name());
    }
}
