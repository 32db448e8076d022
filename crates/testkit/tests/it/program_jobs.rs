//! The queue of a program with `forebay/pool`, in a store that a server has as well.

use std::{
    io::Read as _,
    process::{Child, Command, Stdio},
};

use forebay_testkit::{Folder, command, node, postgres::Schema, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::jobs::{accept, count, jobs, open, over, setup, wait_for_note};

const PROGRAM: &str = "
import { existsSync } from 'node:fs';
import { Pool } from 'SDK/pool/index.js';
import { DurableQueue } from 'SDK/pool/durable.js';

const pool = new Pool({ handlers: { it: './handler.mjs' }, size: { min: 1, max: 1 }, concurrency: 8 });
const queue = await opened();
queue.on('error', ({ message }) => {
  console.error(message);
  process.exit();
});
for (const [name, options] of JSON.parse(process.argv[3])) await queue.enqueue({ name }, options);
setInterval(() => {}, 1_000);

async function opened() {
  for (;;) {
    try {
      return new DurableQueue(pool, { store: process.argv[2], name: 'images', kept: 60_000 });
    } catch (error) {
      if (process.argv[4] !== 'waits') throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
";

const HANDLER: &str = "
import { appendFileSync, existsSync } from 'node:fs';

export default async ({ name }) => {
  appendFileSync('ran', `begin ${name}\\n`);
  while (name === 'gated' && !existsSync('program-gate')) await new Promise((resolve) => setTimeout(resolve, 2));
  if (name === 'wrong') throw new Error('it is wrong');
  return `${name} is done`;
};
";

/// The program, which ends with this.
struct Program(Child);

impl Program {
    fn start(data: &Folder, store: &str, messages: &Value, mode: &str) -> Self {
        let sdk = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/node/dist");
        data.write("work/program.mjs", PROGRAM.replace("SDK", sdk));
        data.write("work/handler.mjs", HANDLER);
        let program = Command::new(node())
            .args(["program.mjs", store, &messages.to_string(), mode])
            .current_dir(data.path().join("work"))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        Self(program.expect("node can be run"))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it is there");
    }

    /// Its standard error, once it has ended by itself.
    fn error(mut self) -> String {
        wait_until("the program to end", || {
            self.0.try_wait().is_ok_and(|status| status.is_some())
        });
        let mut said = String::new();
        let mut stderr = self.0.stderr.take().expect("it is a pipe");
        stderr.read_to_string(&mut said).expect("it is text");
        said
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The output of `forebay jobs` on the store itself; an error is the text of a failure.
fn on_store(store: &str, words: &[&str]) -> Result<String, String> {
    let words: Vec<&str> = ["jobs"].iter().chain(words).copied().collect();
    let output = command(&words)
        .arg("--data")
        .arg(store)
        .output()
        .expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    if output.status.success() {
        return Ok(text(output.stdout));
    }
    Err(text(output.stderr))
}

/// The program's jobs of a state: their ids and attempts.
fn of_state(store: &str, state: &str) -> Vec<(String, u64)> {
    let listed =
        on_store(store, &["list", "--json", "--route", "images", "--state", state]).expect("it lists");
    let listed: Value = serde_json::from_str(&listed).expect("it is JSON");
    let all = listed["jobs"].as_array().expect("a list").iter();
    let id_and_attempts = |job: &Value| (job["id"].as_str()?.to_owned(), job["attempts"].as_u64()?).into();
    all.filter_map(id_and_attempts).collect()
}

#[test]
fn a_program_and_a_server_share_a_store_and_not_their_jobs_which_a_command_looks_after() {
    let data = Folder::new();
    let folder = data.path().join("data");
    let store = folder.to_str().expect("it is text");
    let mut server = setup(&data).start();
    accept(
        &server,
        "",
        &json!({ "name": "of the server", "gate": "server-gate" }),
    );
    wait_for_note(&data, "begin of the server 1");
    let messages = json!([
        ["gated", {}],
        ["wrong", { "attempts": 1 }],
        ["later", { "delay": 3_600_000, "key": "k" }],
    ]);
    let program = Program::start(&data, store, &messages, "");
    wait_for_note(&data, "begin gated");
    wait_until("the wrong one to fail", || of_state(store, "failed").len() == 1);
    let (wrong, _) = of_state(store, "failed").remove(0);
    let listed = jobs(&server, &["list", "--route", "images"]);
    assert!(
        listed.contains("running") && listed.contains("waiting") && listed.contains("it is wrong"),
        "{listed}"
    );

    // The next server runs its own job again, and leaves the program's alone.
    server.kill();
    open(&data, "server-gate");
    let server = setup(&data).start();
    wait_for_note(&data, "end of the server 2");
    let [(gated, 1)] = &of_state(store, "running")[..] else {
        panic!("{:?}", of_state(store, "running"));
    };
    let refused = on_store(store, &["drop", gated]).expect_err("it runs");
    assert!(refused.contains("the job is running"), "{refused}");

    let shown: Value = serde_json::from_str(&on_store(store, &["show", &wrong]).unwrap()).unwrap();
    assert_eq!(
        (
            &shown["route"],
            &shown["request"]["body"],
            &shown["response"]["code"]
        ),
        (
            &json!("images"),
            &json!("{\"name\":\"wrong\"}"),
            &json!("handler_error")
        )
    );
    assert_eq!(shown["request"]["attempts"], 1);
    assert_eq!(on_store(store, &["drop", &wrong]).unwrap(), "jobs removed: 1\n");
    let missing = on_store(store, &["show", &wrong]).expect_err("it is removed");
    assert!(missing.contains(&wrong), "{missing}");
    // The command has a waiting job begin while the program runs.
    let (later, _) = of_state(store, "waiting").remove(0);
    assert_eq!(
        on_store(store, &["retry", &later]).unwrap(),
        "jobs that begin again: 1\n"
    );
    wait_until("the waiting one to be done", || {
        of_state(store, "done") == [(later.clone(), 1)]
    });
    let shown: Value = serde_json::from_str(&jobs(&server, &["show", &later])).unwrap();
    assert_eq!(shown["response"]["body"], "\"later is done\"");

    // A program that is killed leaves its job as running, and the next one runs it again.
    drop(program);
    assert_eq!(of_state(store, "running"), [(gated.clone(), 1)]);
    let own = accept(&server, "", &json!({ "name": "own" }));
    assert_eq!(over(&server, &own)["state"], "done");
    open(&data, "program-gate");
    let _program = Program::start(&data, store, &json!([["later", { "key": "k" }]]), "");
    wait_until("the job that was cut off to be done", || {
        of_state(store, "done").contains(&(gated.clone(), 2))
    });
    // Its key is known to the next program.
    assert_eq!(of_state(store, "done").len(), 2);
}

#[test]
fn a_queue_in_a_database_has_one_program_also_after_a_suspended_one_has_lost_it() {
    let (data, schema) = (Folder::new(), Schema::new());
    let store = &*schema.url();
    std::fs::create_dir_all(data.path().join("work")).expect("a folder can be made");
    let first = Program::start(
        &data,
        store,
        &json!([["wrong", { "attempts": 1 }], ["gated", {}]]),
        "",
    );
    wait_for_note(&data, "begin gated");
    let refused = Program::start(&data, store, &json!([]), "").error();
    assert!(
        refused.contains("another program has the queue \"images\" of postgres://"),
        "{refused}"
    );
    wait_until("one to fail", || of_state(store, "failed").len() == 1);
    let retried = on_store(store, &["retry", "--failed", "--route", "images"]);
    assert_eq!(retried.unwrap(), "jobs that begin again: 1\n");
    wait_until("it to fail again", || {
        of_state(store, "failed")
            .iter()
            .any(|(_, attempts)| *attempts == 2)
    });

    first.signal(Signal::STOP);
    let _second = Program::start(&data, store, &json!([]), "waits");
    wait_until(
        "another program to have the queue, and to run what was running",
        || count(&data, "begin gated") == 2,
    );
    open(&data, "program-gate");
    wait_until("the job to be done", || of_state(store, "done").len() == 1);
    first.signal(Signal::CONT);
    let lost = first.error();
    assert!(
        lost.contains("another program has taken over the queue \"images\""),
        "{lost}"
    );
    assert_eq!(of_state(store, "done")[0].1, 2);
}
