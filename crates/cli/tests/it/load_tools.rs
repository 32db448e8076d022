//! Command lines of other tools as sub-commands of `forebay load`.

use forebay_testkit::Folder;

use crate::{load::Target, run::run};

/// Runs command lines as written in a document, except for their duration: 0.1 s instead of 1 to 15 s, where a line has one.
fn run_as_written(lines: &[&str]) {
    let target = Target::start();
    for line in lines {
        let ended = target.load(line);
        assert_eq!(ended.code, 0, "{line}: {ended:?}");
        let rows: &[&str] = match line.split(' ').next().unwrap() {
            "autocannon" => &["2.5 %", "50 %", "97.5 %", "99 %"],
            "ab" => &[
                "50 %", "66 %", "75 %", "80 %", "90 %", "95 %", "98 %", "99 %", "100 %",
            ],
            _ => &["50 %", "most", "mean", "stddev"],
        };
        for row in rows {
            let has_row = |text: &str| text.trim_start().starts_with(row);
            assert!(ended.out.lines().any(has_row), "{line}: no {row}: {ended:?}");
        }
        assert!(ended.out.contains(" a second"), "{line}: {ended:?}");
    }
}

#[test]
fn every_command_line_of_qoper8_and_of_mg_web_runs() {
    run_as_written(&[
        "autocannon -c 1 -d 0.1 http://HOST:PORT/local",
        "autocannon -c 6 -d 0.1 http://HOST:PORT/local",
        "autocannon -c 8 -d 0.1 http://HOST:PORT/local",
        "autocannon -c 32 -d 0.1 http://HOST:PORT/helloworld",
        "autocannon -c 128 -d 0.1 -w 4 http://HOST:PORT/local",
        "autocannon -c 64 -d 0.1 http://HOST:PORT/mgweb/helloworld",
        "autocannon -c 64 -d 0.1 http://HOST:PORT/mgweb/userx/1",
        "autocannon -c 64 -d 0.1 http://HOST:PORT/mgweb/user/1",
    ]);
}

#[test]
fn every_command_line_of_opo_runs() {
    run_as_written(&[
        "hose -t 2 -c 20 -p json/000000000000000b HOST:PORT",
        "hose -t 2 -c 20 -d 0.1 -p json/000000000000000b HOST:PORT -k",
        "hose -t 2 -c 20 -d 0.1 -p v1/Article/11 HOST:PORT",
        "hose -t 2 -c 20 -d 0.1 -p v1/Article/11 HOST:PORT -k",
        "hose -t 2 -c 20 -d 0.1 -p e1/Article/11 HOST:PORT",
        "hose -t 2 -c 20 -d 0.1 -p e1/Article/11 HOST:PORT -k",
        "hose -p json/000000000000000b -d 0.1 -t 2 HOST:PORT",
        "hose -p v1/Article/11 -d 0.1 -t 2 HOST:PORT",
    ]);
}

#[test]
fn every_command_line_of_rengine_and_of_light_4j_runs() {
    run_as_written(&[
        "ab -p benchmark1.json -T application/json -n 1000 -c 200 http://HOST:PORT/execute/internal/workflow",
        "ab -p benchmark1.json -T application/json -n 2000 -c 1000 http://HOST:PORT/execute/internal/workflow",
        "go-wrk -t 2 -m 10000 http://HOST:PORT/queries?queries=10",
        "go-wrk -t 2 -m 10000 http://HOST:PORT/queries2?queries=10",
        "jmeter --threads 2,4,8 --ramp-up 0 --loops forever --duration 0.1 http://HOST:PORT/queries?queries=10",
        "jmeter --threads 2,4,8 --ramp-up 0 --loops forever --duration 0.1 http://HOST:PORT/queries2?queries=10",
    ]);
}

#[test]
fn other_tools_flags_are_listed() {
    let folder = Folder::new();
    for tool in ["autocannon", "ab", "hose", "go-wrk", "jmeter"] {
        let help = run(folder.path(), &["load", tool, "--help"]);
        assert_eq!((help.code, help.err.as_str()), (0, ""), "{tool}");
        assert!(
            help.out.starts_with(&format!("Usage: forebay load {tool}")),
            "{help:?}"
        );
    }
}
