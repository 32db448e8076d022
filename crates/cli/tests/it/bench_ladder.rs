//! `forebay bench ladder`. The tests do not judge the figures, only that all of them are reported, and what becomes of entries without any.

use std::{path::Path, process::Stdio};

use forebay_testkit::{Folder, Process, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::run::{Ended, ended, forebay, run, workspace};

/// The smallest run that has all parts.
const SMALL: [&str; 5] = ["bench", "ladder", "--quick", "--connections", "4"];
const SLICE: [&str; 2] = ["--slice", "100ms"];

fn ladder(folder: &Path, options: &[&str]) -> Ended {
    run(folder, &[&SMALL[..], &SLICE, options].concat())
}

/// The JSON result, whether or not all bars hold: so short a run says nothing about them.
fn measured(folder: &Path, options: &[&str]) -> Value {
    result_of(&ladder(folder, &[options, &["--json"]].concat()))
}

fn result_of(ended: &Ended) -> Value {
    assert!(ended.code <= 1, "{}", ended.err);
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {}\n{}", ended.out, ended.err))
}

fn row<'a>(result: &'a Value, name: &str) -> &'a Value {
    let mut rows = result["rungs"].as_array().unwrap().iter();
    rows.find(|row| row["name"] == name)
        .unwrap_or_else(|| panic!("no row {name}: {result}"))
}

#[test]
fn every_rung_that_needs_nothing_else_has_all_figures() {
    let folder = Folder::new();
    let result = measured(folder.path(), &[]);
    // Half of benchmark1's time is the making of a key.
    let slow = ["--slice", "300ms", "--only", "workflow, benchmark1", "--json"];
    let slow = result_of(&run(folder.path(), &[&SMALL[..], &slow].concat()));
    let rows = result["rungs"].as_array().unwrap();
    assert!(rows.len() >= 20, "{result}");
    for row in rows {
        let name = row["name"].as_str().unwrap();
        let row = if name == "workflow, benchmark1" {
            self::row(&slow, name)
        } else {
            row
        };
        let missing = [("SQL", "make postgres"), ("pool, FastAPI", "bench/peers/.venv")];
        if let Some((_, note)) = missing.iter().find(|(start, _)| name.starts_with(start)) {
            assert_eq!(
                (&row["verdict"], &row["requests_per_second"]),
                (&"skipped".into(), &Value::Null),
                "{row}"
            );
            assert!(row["notes"][0].as_str().unwrap().contains(note), "{row}");
            continue;
        }
        for figure in ["requests_per_second", "p50_ms", "p99_ms", "cpu_us_per_request"] {
            assert!(
                row[figure].as_f64().is_some_and(|value| value >= 0.0),
                "{figure}: {row}"
            );
        }
        assert!(row["requests_per_second"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["slices"], 2, "{row}");
        assert_eq!(
            row["ratio_to_base"].as_f64().is_some(),
            name != "respond",
            "{row}"
        );
    }
    assert!(result["environment"]["cores"].as_u64().unwrap() > 0);
    let node = row(&result, "pool, Node");
    assert_eq!(node["base"], "respond");
    assert_eq!(node["bars"].as_array().unwrap().len(), 3);
}

#[test]
fn a_document_is_measured_row_by_row_beside_what_it_has_published() {
    let folder = Folder::new();
    folder.write(
        "doc.md",
        "before\n<!-- forebay bench seed wabur: tables -->\nold\n<!-- end -->\nafter\n",
    );
    let options = [
        "bench",
        "seed",
        "wabur",
        "--rounds",
        "1",
        "--slice",
        "100ms",
        "--html",
        "page.html",
        "--into",
        "doc.md",
        "--json",
    ];
    let ended = run(folder.path(), &options);
    assert_eq!(ended.code, 0, "{}", ended.err);
    let result: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(result["bench"], "seed wabur");
    let rows: Vec<&Value> = result["tables"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|table| table["rows"].as_array().unwrap())
        .collect();
    assert_eq!(rows.len(), 11);
    for row in &rows {
        assert!(row["per_second"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["mean_ms"].as_f64().unwrap() > 0.0, "{row}");
        let has_ratio = row["ratio_to_baseline"].is_f64() && row["published"]["ratio_to_baseline"].is_f64();
        assert_eq!(has_ratio, row["baseline"].is_string(), "{row}");
    }
    let embedded = rows[5];
    assert_eq!(embedded["row"], "e1/Article/11, embedded, keep-alive");
    assert_eq!(embedded["published"]["per_second"], 227_789.0);
    assert!(rows[10]["reached"].is_boolean() && rows[9]["reached"].is_null());
    let closed = row(&result, "direct, closed");
    assert_eq!(
        (&closed["connections"], &closed["base"]),
        (&20.into(), &"direct".into())
    );
    let page = folder.read("page.html").unwrap();
    let document = folder.read("doc.md").unwrap();
    let begins = "before\n<!-- forebay bench seed wabur: tables -->\n`forebay bench seed wabur --rounds 1 --slice 100ms`, 20";
    assert!(document.starts_with(begins), "{document}");
    assert!(
        document.contains("OpO Direct") && document.ends_with("```\n<!-- end -->\nafter\n"),
        "{document}"
    );
    assert!(
        page.contains("forebay bench seed wabur") && page.contains("347,951"),
        "{page}"
    );
}

#[test]
fn a_row_that_a_program_measures_and_one_of_a_number_of_requests_have_figures() {
    for (document, rung, slices) in [
        ("qoper8", "queue, Node, 1,000 messages, 10 ms", 2),
        ("rengine", "200 connections", 1),
    ] {
        let rounds = slices.to_string();
        let options = [
            "bench", "seed", document, "--slice", "100ms", "--rounds", &rounds, "--only", rung, "--json",
        ];
        // The library that the first one measures is in the repository.
        let ended = run(&workspace(), &options);
        assert_eq!(ended.code, 0, "{}", ended.err);
        let result: Value = serde_json::from_str(&ended.out).unwrap();
        let row = row(&result, rung);
        assert_eq!(row["slices"], slices, "{row}");
        assert!(row["requests_per_second"].as_f64().unwrap() > 0.0, "{row}");
    }
}

#[test]
fn a_point_of_each_curve_has_figures_and_neighbours_are_compared() {
    let folder = Folder::new();
    let chosen = [
        "memory, 1 connections",
        "memory, 4 connections",
        "pool of 2 workers",
        "record of 1000 bytes",
        "one of 10000 records",
        "graph of 1 nodes",
        "graph of 10 nodes",
    ];
    let mut options = vec!["bench", "scaling", "--rounds", "1", "--slice", "200ms", "--json"];
    options.extend(chosen.iter().flat_map(|name| ["--only", name]));
    let ended = run(folder.path(), &options);
    assert_eq!(ended.code, 0, "{}", ended.err);
    let result: Value = serde_json::from_str(&ended.out).unwrap();
    let curves = result["curves"].as_array().unwrap();
    assert_eq!(curves.len(), 5);
    let points: Vec<&Value> = curves
        .iter()
        .flat_map(|curve| curve["points"].as_array().unwrap())
        .collect();
    let names: Vec<&str> = points
        .iter()
        .map(|point| point["rung"].as_str().unwrap())
        .collect();
    assert_eq!(names, chosen, "{result}");
    for point in points {
        assert!(point["requests_per_second"].as_f64().unwrap() > 0.0, "{point}");
        assert!(point["cpu_us_per_request"].as_f64().unwrap() > 0.0, "{point}");
    }
    let nodes = &curves[4]["points"];
    assert!(
        nodes[0]["cost_over_work"].is_null() && nodes[1]["cost_over_work"].as_f64().unwrap() > 0.0,
        "{nodes}"
    );
    assert!(
        result["programs"]["Node"].as_str().unwrap().starts_with('2'),
        "{result}"
    );
}

/// A folder of peers with one that answers wrongly, one that ends, and one that is not there.
fn broken_peers() -> Folder {
    let folder = Folder::new();
    let fastify = "
        import { createServer } from 'node:http';
        const server = createServer((_, response) => response.end('hello'));
        server.listen(0, '127.0.0.1', () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
    ";
    folder.write("peers/servers/fastify.mjs", fastify);
    folder.write(
        "peers/servers/bun.mjs",
        "console.error('no port left'); process.exit(3);",
    );
    folder.write("peers/node_modules/fastify/package.json", "{}");
    folder
}

#[test]
fn peers_that_answer_wrongly_end_or_are_missing_have_no_figure_and_stop_nobody() {
    let folder = broken_peers();
    let options = [
        "--peers",
        "--packages",
        "peers",
        "--only",
        "pool, Node",
        "--html",
        "page.html",
    ];
    let result = measured(folder.path(), &options);
    for (name, verdict, says) in [
        ("Fastify", "failed", "the body is `hello`"),
        ("Bun.serve", "failed", "no port left"),
        (
            "Fastify with qoper8-cp",
            "skipped",
            "qoper8-cp is not there; install it: npm install --no-save --prefix bench/peers",
        ),
    ] {
        let row = row(&result, name);
        assert_eq!(
            (&row["verdict"], &row["requests_per_second"]),
            (&verdict.into(), &Value::Null),
            "{row}"
        );
        assert!(row["notes"][0].as_str().unwrap().contains(says), "{row}");
    }
    let own = row(&result, "pool, Node");
    assert!(
        own["requests_per_second"].as_f64().unwrap() > 0.0 && own["bars"][0]["ratio"].is_null(),
        "{own}"
    );
    let page = folder.read("page.html").unwrap();
    for text in ["pool, Node", "no port left", "--packages peers"] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn a_run_that_was_interrupted_prints_what_it_has_and_goes_on_from_its_file() {
    let folder = Folder::new();
    let options = [
        &SMALL[..],
        &SLICE,
        &["--only", "file", "--save", "run.jsonl", "--json"],
    ]
    .concat();
    let endless = [&options[..], &["--rounds", "1000"]].concat();
    let command = forebay(folder.path(), &endless[..])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("some slices", || {
        let saved = std::fs::read_to_string(folder.path().join("run.jsonl")).ok()?;
        (saved.lines().count() > 4).then_some(())
    });
    kill_process(Pid::from_raw(command.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let ended = ended(&command.wait_with_output().unwrap());
    let result: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(
        (ended.code, &result["interrupted"]),
        (0, &true.into()),
        "{}",
        ended.err
    );
    assert!(
        row(&result, "respond")["slices"].as_u64().unwrap() >= 2,
        "{result}"
    );

    let lines = || folder.read("run.jsonl").unwrap().lines().count();
    let before = lines();
    let again = run(folder.path(), &options);
    assert_eq!((again.code, lines()), (0, before), "{}", again.err);
    let other = run(
        folder.path(),
        &[
            "bench",
            "ladder",
            "--quick",
            "--slice",
            "200ms",
            "--only",
            "file",
            "--save",
            "run.jsonl",
        ],
    );
    assert!(
        other.code != 0 && other.err.contains("name another file"),
        "{}",
        other.err
    );
}

#[test]
fn who_is_killed_leaves_no_server_and_no_worker_behind() {
    let folder = Folder::new();
    let options = [&SMALL[..], &SLICE, &["--only", "pool, Node", "--rounds", "1000"]].concat();
    let mut bench = forebay(folder.path(), &options)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let workers = wait_for("a server with its workers", || {
        let mut children = Process::children_of(bench.id()).into_iter();
        children.find_map(|server| Some(Process::children_of(server.pid)).filter(|found| found.len() > 2))
    });
    bench.kill().unwrap();
    bench.wait().unwrap();
    for worker in workers {
        wait_for("a worker's end", || (!worker.is_alive()).then_some(()));
    }
}

#[test]
fn wrong_options_say_what_is_accepted() {
    let folder = Folder::new();
    for (options, says) in [
        (
            &["--only", "pool"][..],
            "there is no entry \"pool\" in the ladder; there are \"respond\", \"respond, again\"",
        ),
        (&["--slice", "1ms"], "expected 100ms to 300s"),
        (&["--packages", "none"], "there is no such folder"),
        (&["--into", "none.md"], "--into none.md: No such file"),
        (
            &["--html", "none/ladder.html"],
            "lies in a folder that does not exist",
        ),
    ] {
        let ended = run(folder.path(), &[&["bench", "ladder"], options].concat());
        assert_eq!(ended.code, 2, "{options:?}: {}", ended.err);
        assert!(ended.err.contains(says), "{options:?}: {}", ended.err);
    }
}

#[test]
fn the_table_has_a_line_for_each_entry() {
    let ended = run(
        &workspace(),
        &[&SMALL[..], &SLICE, &["--only", "file", "--no-keepalive"]].concat(),
    );
    assert_eq!(ended.code, 0, "{}", ended.err);
    for text in [
        "requests/s",
        "respond",
        "file",
        "of base",
        "2 slices of 0.1 s each, 4 connections, each for one request",
    ] {
        assert!(ended.out.contains(text), "{text}: {}", ended.out);
    }
}
