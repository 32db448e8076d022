//! Command lines of other tools as sub-commands of `forebay load`.

use forebay_testkit::Folder;

use crate::{load::Target, run::run};

/// Runs command lines as they stand in a document, but for how long they last: 0.1 s instead of 1 to 15, where a line says.
fn run_as_written(lines: &[&str]) {
    let target = Target::start();
    for line in lines {
        let ended = target.load(line);
        assert_eq!(ended.code, 0, "{line}: {ended:?}");
        let figure = match line.split(' ').next().unwrap() {
            "autocannon" => " requests in ",
            "hose" => " GETS/sec",
            "ab" => "Failed requests:        0\n",
            "go-wrk" => "Requests per second:",
            "jmeter" => "\nTOTAL ",
            _ => "\nRequests/sec:",
        };
        let printed = format!("{}{}", ended.out, ended.err);
        assert!(printed.contains(figure), "{line}: {ended:?}");
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
        // What TechEmpower measures light-java with.
        "wrk -t2 -c10 -d0.1s --latency http://HOST:PORT/local",
        "wrk2 -t2 -c10 -d0.1s -R500 http://HOST:PORT/local",
        "jmeter --threads 2,4 --ramp-up 0.1 --loops 3 http://HOST:PORT/local",
        "ab -n 20 -c 4 -R 5 http://HOST:PORT/local",
    ]);
}

#[test]
fn a_number_as_go_wrks_method_is_explained() {
    let target = Target::start();
    let ended = target.load("go-wrk -t 2 -m 200 http://HOST:PORT/local");
    assert!(
        ended.err.contains("go-wrk itself takes -m as the method"),
        "{ended:?}"
    );
    assert!(ended.out.contains("200"), "{ended:?}");
}

#[test]
fn ab_shows_the_request_and_the_first_answer_when_it_is_asked_to() {
    let target = Target::start();
    let ended = target.load("ab -v 4 -n 3 http://HOST:PORT/nowhere");
    for part in [
        "INFO: GET header == \n---\nGET /nowhere HTTP/1.0\r\n",
        "LOG: header received:\nHTTP/1.1 404 Not Found\r\n",
        "LOG: Response code = 404\n",
        "WARNING: Response code not 2xx (404), 3 times\n",
    ] {
        assert!(ended.out.contains(part), "{part}: {ended:?}");
    }
}

#[test]
fn other_tools_flags_are_listed() {
    let folder = Folder::new();
    for tool in ["autocannon", "ab", "hose", "go-wrk", "wrk", "wrk2", "jmeter"] {
        let help = run(folder.path(), &["load", tool, "--help"]);
        assert_eq!((help.code, help.err.as_str()), (0, ""), "{tool}");
        assert!(
            help.out.starts_with(&format!("Usage: forebay load {tool}")),
            "{help:?}"
        );
    }
}
