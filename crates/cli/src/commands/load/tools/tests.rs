use super::*;
use forebay_load::search::WarmUp;
use std::time::Duration;

/// The options of a command line, whose words are separated by spaces except within single quotes.
fn read(line: &str) -> Result<Options, String> {
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let tool = TABLES.iter().find(|table| table.name == name).unwrap();
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
    let ab = "ab -p benchmark1.json -T application/json -n 1000 -c 200 http://localhost:28002/execute/internal/workflow";
    #[rustfmt::skip]
    let lines = [
        ("autocannon -c 1 -d 1 http://h:3000/local", "http://h:3000/local", (1, 1), Some(1.0), None, true),
        ("autocannon -c 8 -d 10 http://h:3000/local", "http://h:3000/local", (8, 1), Some(10.0), None, true),
        ("autocannon -c 128 -d 5 -w 4 http://h/local", "http://h/local", (128, 4), Some(5.0), None, true),
        ("hose -t 2 -c 20 -p json/0b 127.0.0.1:6363", "http://127.0.0.1:6363/json/0b", (20, 2), Some(1.0), None, false),
        ("hose -t 2 -c 20 -p v1/A/11 h:6363 -k", "http://h:6363/v1/A/11", (20, 2), Some(1.0), None, true),
        ("hose -p 'json/0b' -d 1.0 -t 2 h:6363", "http://h:6363/json/0b", (1000, 2), Some(1.0), None, false),
        (ab, "http://localhost:28002/execute/internal/workflow", (200, 1), None, Some(1000), false),
        ("go-wrk -t 2 -m 10000 http://h/queries?queries=10", "http://h/queries?queries=10", (100, 2), None, Some(10_000), true),
        ("jmeter --threads 2,4,8 --ramp-up 0 --loops forever http://h/q", "http://h/q", (1, 1), Some(15.0), None, true),
    ];
    for (line, url, (connections, threads), duration, count, keep_alive) in lines {
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
    let sizes = read("jmeter --threads 2,4,8 --loops forever h")
        .unwrap()
        .of_tool
        .sizes;
    assert_eq!(sizes, [2, 4, 8]);
    let posts = read(ab).unwrap();
    assert_eq!(
        (posts.method.as_deref(), posts.body_file),
        (Some("POST"), Some("benchmark1.json".into()))
    );
    assert_eq!(
        posts.headers,
        [("Content-Type".to_owned(), "application/json".to_owned())]
    );
    assert!(posts.of_tool.http10 && posts.of_tool.same_length);
    assert_eq!(
        posts.forms.percentiles,
        [50.0, 66.0, 75.0, 80.0, 90.0, 95.0, 98.0, 99.0, 100.0]
    );
    let cannon = read("autocannon http://h/").unwrap();
    assert_eq!(cannon.forms.percentiles, [2.5, 50.0, 97.5, 99.0]);
}

#[test]
fn flags_are_written_as_the_tool_takes_them() {
    let ab = read("ab -k -q -c 10 -n=100 -A me:secret -l http://h/").unwrap();
    assert!(!ab.no_keepalive && ab.quiet && !ab.of_tool.same_length);
    assert_eq!(
        (ab.connections, ab.count, ab.user.as_deref()),
        (Some(10), Some(100), Some("me:secret"))
    );
    assert_eq!(read("ab -t 5 http://h/").unwrap().count, Some(50_000));
    assert_eq!(read("ab -t 5 -n 10 http://h/").unwrap().count, Some(10));
    let go = read("go-wrk -c=5 -k=true -H 'A: 1\\nB: 2' -n 20 http://h/").unwrap();
    assert!(go.no_keepalive && !read("go-wrk -k=false http://h/").unwrap().no_keepalive);
    assert_eq!(
        (go.connections, go.count, go.headers.len()),
        (Some(5), Some(20), 2)
    );
    let more_threads = read("autocannon -c 2 -w 8 http://h/").unwrap();
    assert_eq!(
        more_threads.threads,
        Some(2),
        "a thread without a connection has nothing to do"
    );
}

#[test]
fn a_number_as_go_wrks_method_is_the_count_and_a_note_says_so() {
    let count = read("go-wrk -t 2 -m 10000 http://h/").unwrap();
    assert_eq!((count.count, count.method), (Some(10_000), None));
    let note = &count.of_tool.notes[0];
    assert!(
        note.contains("would send 1000 requests with the method 10000"),
        "{note}"
    );
    let method = read("go-wrk -m PUT http://h/").unwrap();
    assert_eq!(
        (method.count, method.method.as_deref()),
        (Some(1000), Some("PUT"))
    );
    assert!(method.of_tool.notes.is_empty());
}

#[test]
fn what_makes_no_sense_is_refused_with_a_sentence() {
    for (line, complaint) in [
        ("ab -n", "-n: its REQUESTS is missing"),
        ("ab -n many http://h/", "found \"many\", expected a count"),
        (
            "ab http://h/ http://i/",
            "found \"http://i/\", expected nothing more",
        ),
        ("ab", "URL is missing"),
        ("ab -J http://h/", "-J: no such flag"),
        ("autocannon", "URL is missing"),
        ("autocannon --on-port / -- node x.mjs", "--on-port: no such flag"),
        ("hose -p x", "HOST:PORT is missing"),
        ("go-wrk -k=maybe http://h/", "expected true or false"),
        (
            "jmeter --ramp-up 5 http://h/",
            "--ramp-up: found \"5\", expected 0",
        ),
        (
            "jmeter --loops 3 http://h/",
            "expected forever; `-n` counts requests",
        ),
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
    for table in TABLES {
        let help = read(&format!("{} --help", table.name)).unwrap_err();
        assert!(
            help.starts_with(&format!("Usage: forebay load {}", table.name)),
            "{help}"
        );
        let mut names: Vec<&str> = table.flags.iter().flat_map(|flag| flag.0.split(' ')).collect();
        assert!(names.iter().all(|name| help.contains(name)));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{}", table.name);
    }
}
