//! `forebay bench pool`: pools measured without HTTP. The tests do not judge the figures, only that all of them are reported.

use std::process::Stdio;

use forebay_testkit::{Folder, Process, blocks, wait_for};
use serde_json::Value;

use crate::run::{Ended, forebay, run};

const GUIDE: &str = include_str!("../../../../docs/guide/bench-pool.md");

/// The smallest run that has all parts.
const SMALL: [&str; 8] = [
    "--messages",
    "300",
    "--warmup",
    "50",
    "--block",
    "40",
    "--deadline",
    "20s",
];

fn bench(folder: &Folder, options: &[&str]) -> Ended {
    run(folder.path(), &[&["bench", "pool"], &SMALL[..], options].concat())
}

/// The JSON result of a successful run.
fn measured(folder: &Folder, options: &[&str]) -> Value {
    let ended = bench(folder, &[options, &["--json", "-"]].concat());
    assert_eq!(ended.code, 0, "{}", ended.err);
    serde_json::from_str(&ended.out).unwrap()
}

fn messages_by_workers(run: &Value) -> Vec<u64> {
    let workers = run["workers"].as_array().unwrap();
    workers
        .iter()
        .map(|worker| worker["messages"].as_u64().unwrap())
        .collect()
}

#[test]
fn the_servers_pool_answers_every_message_in_every_runtime() {
    let folder = Folder::new();
    for runtime in ["node", "bun", "python"] {
        let result = measured(&folder, &["--runtime", runtime]);
        let pool = &result["pools"][0];
        let run = &pool["runs"][0];
        assert_eq!(pool["name"], format!("forebay server, {runtime}"));
        assert_eq!(run["messages"], 300);
        assert_eq!(pool["errors"], 0, "{runtime}: {}", run["error_texts"]);
        let workers = messages_by_workers(run);
        assert_eq!((workers.len(), workers.iter().sum()), (2, 300), "{runtime}");
        assert_eq!(run["outstanding_max"], 80);
        assert!(run["latency"]["p50_us"].as_f64() <= run["latency"]["max_us"].as_f64());
        assert!(run["main_us"].as_f64().unwrap() > 0.0);
        assert!(run["run"]["max_us"].as_f64().is_some(), "{runtime}");
    }
}

#[test]
fn the_library_answers_every_message_in_processes_and_threads_of_node_and_bun() {
    let folder = Folder::new();
    for dispatcher in ["node", "bun"] {
        for kind in ["process", "thread"] {
            let result = measured(&folder, &["--dispatcher", dispatcher, "--kind", kind]);
            let pool = &result["pools"][0];
            assert_eq!(pool["name"], format!("forebay/pool, {dispatcher} {kind}"));
            assert_eq!(pool["errors"], 0, "{}", pool["runs"][0]["error_texts"]);
            let workers = messages_by_workers(&pool["runs"][0]);
            assert_eq!(workers.iter().sum::<u64>(), 300);
            assert_eq!(
                result["pools"][1]["name"],
                format!("the driver alone, {dispatcher}")
            );
        }
    }
}

#[test]
fn one_message_at_a_time_is_one_for_each_worker() {
    let folder = Folder::new();
    folder.write(
        "alone.mjs",
        "let running = 0;
         export default async ({ messageNo }, ctx) => {
           if (++running > 1) throw new Error('not alone');
           await new Promise((resolve) => setImmediate(resolve));
           running--;
           return { messageNo, workerId: ctx.worker.id };
         };",
    );
    for dispatcher in ["server", "node"] {
        let options = [
            "--dispatcher",
            dispatcher,
            "--in-flight",
            "1",
            "--handler",
            "alone.mjs",
        ];
        assert_eq!(
            measured(&folder, &options)["pools"][0]["errors"],
            0,
            "{dispatcher}"
        );
    }
}

#[test]
fn own_handlers_get_messages_of_the_size_that_is_asked_for() {
    let folder = Folder::new();
    folder.write(
        "sized.mjs",
        "export default ({ payload }) => { if (payload.length !== 70000) throw new Error(`${payload.length} long`); return 'ok'; };",
    );
    folder.write(
        "sized.py",
        "def handler(message, ctx):\n    assert len(message['payload']) == 70000\n    return {'worker': ctx.worker.id}\n",
    );
    for (dispatcher, runtime, file) in [
        ("server", "node", "sized.mjs"),
        ("server", "python", "sized.py"),
        ("node", "node", "sized.mjs"),
    ] {
        let options = [
            "--dispatcher",
            dispatcher,
            "--runtime",
            runtime,
            "--handler",
            file,
        ];
        let result = measured(&folder, &[&options[..], &["--payload", "70000"]].concat());
        assert_eq!(
            result["pools"][0]["errors"], 0,
            "{}",
            result["pools"][0]["runs"][0]["error_texts"]
        );
    }
}

#[test]
fn errors_are_counted_and_told_and_the_command_fails() {
    let folder = Folder::new();
    folder.write(
        "odd.mjs",
        "export default ({ messageNo }) => { if (messageNo % 3 === 0) throw new Error('no thirds'); return { messageNo }; };",
    );
    for (dispatcher, text) in [("server", "status 500"), ("node", "no thirds")] {
        let ended = bench(&folder, &["--dispatcher", dispatcher, "--handler", "odd.mjs"]);
        assert_eq!(ended.code, 1);
        assert!(
            ended.out.contains("100 x ") && ended.out.contains(text),
            "{}",
            ended.out
        );
        assert!(
            ended.err.contains("100 of 300 messages had no proper reply"),
            "{}",
            ended.err
        );
    }
}

#[test]
fn what_never_answers_ends_the_run() {
    let folder = Folder::new();
    folder.write("silent.mjs", "export default () => new Promise(() => {});");
    for dispatcher in ["server", "node"] {
        let options = [
            "--dispatcher",
            dispatcher,
            "--handler",
            "silent.mjs",
            "--warmup",
            "0",
            "--deadline",
            "300ms",
        ];
        let ended = run(
            folder.path(),
            &[&["bench", "pool", "--messages", "4"], &options[..]].concat(),
        );
        assert_eq!(ended.code, 1, "{dispatcher}: {}", ended.out);
        assert!(ended.err.contains("error: "), "{}", ended.err);
    }
}

#[test]
fn blocks_with_a_delay_that_follows_the_queue_print_what_qoper8_prints() {
    let folder = Folder::new();
    for dispatcher in ["server", "node"] {
        let ended = bench(
            &folder,
            &["--dispatcher", dispatcher, "--adaptive", "--delay", "1ms"],
        );
        assert_eq!(ended.code, 0, "{}", ended.err);
        for line in [
            "Block no: 1 (0): Queue exhausted\ndelay reduced to 0\n",
            "\nCompleted sending messages\n",
            "===========================\n \n300 messages: ",
            "Processing rate: ",
            "Child Process 1: ",
        ] {
            assert!(ended.out.contains(line), "{line:?} in {}", ended.out);
        }
    }
}

#[test]
fn several_sizes_make_a_curve_that_names_the_best() {
    let folder = Folder::new();
    let ended = bench(
        &folder,
        &["--workers", "1,3", "--html", "pool.html", "--json", "pool.json"],
    );
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(
        ended.out.contains("forebay server, node by number of workers"),
        "{}",
        ended.out
    );
    assert!(ended.out.contains("best with "), "{}", ended.out);
    let page = folder.read("pool.html").unwrap();
    assert!(page.contains("<svg") && page.contains("forebay server, node, 3 workers"));
    let json: Value = serde_json::from_str(&folder.read("pool.json").unwrap()).unwrap();
    let best = &json["best"]["forebay server, node"];
    assert!(matches!(best["workers"].as_u64(), Some(1 | 3)), "{best}");
    assert_eq!(messages_by_workers(&json["pools"][1]["runs"][0]).len(), 3);
}

#[test]
fn pools_of_others_take_turns_with_ours_and_are_compared_with_it() {
    let folder = Folder::new();
    let result = measured(&folder, &["--peers", "ipc", "--repeat", "2"]);
    let pools = result["pools"].as_array().unwrap();
    let names: Vec<&Value> = pools.iter().map(|pool| &pool["name"]).collect();
    assert_eq!(
        names,
        [
            "forebay server, node",
            "ipc, node process",
            "the driver alone, node"
        ]
    );
    assert_eq!(pools[1]["runs"].as_array().unwrap().len(), 2);
    assert_eq!(pools[1]["first_by_this"]["pairs"], 2);
    assert_eq!(pools[0]["first_by_this"], Value::Null);
}

#[test]
fn packages_of_others_that_are_not_there_are_named_before_anything_is_measured() {
    let folder = Folder::new();
    let ended = bench(&folder, &["--packages", ".", "--peers", "piscina,qoper8-cp"]);
    assert_eq!((ended.code, ended.out.as_str()), (1, ""));
    for part in [
        "piscina, qoper8-cp are not installed in ",
        "npm install --prefix ",
        " piscina@5.3.2 qoper8-cp@5.3.1",
    ] {
        assert!(ended.err.contains(part), "{}", ended.err);
    }
}

#[test]
fn words_that_contradict_each_other_or_say_nothing_known_are_refused_with_what_is_accepted() {
    let folder = Folder::new();
    for (options, says) in [
        (
            &["--dispatcher", "node", "--runtime", "python"][..],
            "take --dispatcher server",
        ),
        (&["--kind", "thread"], "for --dispatcher node and bun"),
        (
            &["--peers", "jest"],
            "expected all, qoper8-cp, qoper8-wt, piscina, tinypool, workerpool, ipc",
        ),
        (&["--workers", "0"], "expected a number from 1 to 1024, or sweep"),
        (
            &["--handler", "none.mjs"],
            "--handler none.mjs: there is no such file",
        ),
        (
            &["--delay", "1.5ms"],
            "expected whole milliseconds, at most a minute",
        ),
        (&["--outstanding", "5", "--adaptive"], "cannot be used with"),
        (
            &["--packages", "none"],
            "--packages none: there is no such folder",
        ),
        (
            &["--json", "none/pool.json"],
            "lies in a folder that does not exist",
        ),
    ] {
        let ended = run(folder.path(), &[&["bench", "pool"], options].concat());
        assert_eq!(ended.code, 2, "{options:?}: {}", ended.err);
        assert!(ended.err.contains(says), "{options:?}: {}", ended.err);
    }
}

#[test]
fn who_is_killed_leaves_no_driver_and_no_worker_behind() {
    let folder = Folder::new();
    let options = ["bench", "pool", "--dispatcher", "node", "--messages", "1000m"];
    let mut bench = forebay(folder.path(), &options)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let drivers = wait_for("a driver", || {
        Some(Process::children_of(bench.id())).filter(|found| found.len() == 1)
    });
    let workers = wait_for("its workers", || {
        Some(Process::children_of(drivers[0].pid)).filter(|found| found.len() == 2)
    });
    bench.kill().unwrap();
    bench.wait().unwrap();
    for process in drivers.iter().chain(&workers) {
        wait_for("its end", || (!process.is_alive()).then_some(()));
    }
}

/// A command of the guide with fewer messages, sizes and repeats, and of the pools of others that without a package.
fn shortened(command: &str) -> Vec<&str> {
    let mut words: Vec<&str> = command.split_whitespace().skip(3).collect();
    if words.contains(&"--peers") {
        words.retain(|word| *word != "--peers" && !word.contains(",ipc"));
        words.extend(["--peers", "ipc"]);
    }
    let mut short = vec!["bench", "pool", "--warmup", "20"];
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        short.push(word);
        if let Some(instead) = match word {
            "--workers" => Some("1,2"),
            "--repeat" => Some("2"),
            "--messages" => {
                short.pop();
                words.next();
                None
            }
            _ => None,
        } {
            short.push(instead);
            words.next();
        }
    }
    short.extend(["--messages", "100"]);
    short
}

#[test]
fn every_command_of_the_guide_and_of_the_help_works() {
    let folder = Folder::new();
    folder.write("resize.mjs", blocks(GUIDE, "js")[0]);
    folder.write("count.py", blocks(GUIDE, "python")[0]);
    let help = run(folder.path(), &["bench", "pool", "--help"]).out;
    let examples = help.split("Examples:").nth(1).unwrap().lines().map(|line| {
        // The description follows after two spaces.
        line.trim().split("  ").next().unwrap()
    });
    let commands: Vec<&str> = blocks(GUIDE, "")
        .into_iter()
        .flat_map(str::lines)
        .chain(examples)
        .filter(|line| line.starts_with("forebay bench pool"))
        .collect();
    assert!(commands.len() >= 11, "{commands:?}");
    for command in commands {
        let ended = run(folder.path(), &shortened(command));
        assert_eq!(ended.code, 0, "{command}: {}", ended.err);
        assert!(ended.out.contains("100 messages"), "{command}: {}", ended.out);
    }
}
