//! The data services of rules: the parts of `context.getDataService()` and `context.getExecutor()` that need no other server.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_script::{Allow, Failure, Limits, Program};
use serde_json::{Value, json};

use crate::{
    rules::Rules,
    scripts::{LIMITS, options_of},
};

fn rules(allow: Allow) -> Rules {
    Rules::of(options_of(Program::Rules, LIMITS, allow))
}

/// Allows these programs to be run.
fn programs(programs: &[&str]) -> Allow {
    Allow {
        clients: Arc::new(forebay_clients::Options {
            programs: programs.iter().map(PathBuf::from).collect(),
            output_bytes_max: 1000,
            ..forebay_clients::Options::default()
        }),
        ..Allow::default()
    }
}

fn rule(body: &str) -> String {
    format!("async function process(context) {{ const data = context.getDataService(); {body} }}")
}

/// Runs a rule with this body and returns its values.
async fn values(rules: &Rules, body: &str) -> Value {
    let answer = rules.run(&[&rule(body)]).await.unwrap();
    assert!(answer.get("failed").is_none(), "{answer}");
    answer["values"].clone()
}

#[tokio::test]
async fn what_is_not_there_says_what_stands_in_its_place() {
    let rules = rules(Allow::default());
    for (call, told) in [
        (
            "obtainMongoDSFacade('m')",
            "MongoDB is not supported: keep documents in `store`",
        ),
        ("getDefaultSSHClient()", "SSH is not supported"),
        ("getDefaultTCPClient()", "TCP is not supported"),
        (
            "obtainNotifier('DINGTALK')",
            "DINGTALK is not supported: post the message to the webhook",
        ),
        ("obtainNotifier('PIGEON')", "there is no notifier \"PIGEON\""),
        ("obtainJdbcDSFacade('')", "`name` is a text with something in it"),
        (
            "obtainRedisDSFacade('cache').get('a')",
            "Redis `cache` may not be reached: `allow` of `[workflow]` names none in `redis`",
        ),
        (
            "getDefaultRedisLockClient().getLock('a').lock()",
            "a Redis may not be reached",
        ),
        (
            "getDefaultProcessClient().execute('/bin/sh', ['-c', 'true'])",
            "program `/bin/sh` may not be reached: `allow` of `[workflow]` names none in `process`",
        ),
        (
            "obtainJdbcDSFacade('main').findList('select 1')",
            "names no database in `sql`",
        ),
        (
            "getDefaultHttpClient().getForText('http://127.0.0.1:1/')",
            "may not fetch from `127.0.0.1:1`",
        ),
    ] {
        let failure = rules.failure(&rule(&format!("await data.{call};"))).await;
        assert!(failure.contains(told), "{call}: {failure}");
    }
}

#[tokio::test]
async fn functions_run_beside_a_rule_and_end_with_their_time() {
    let rules = rules(Allow::default());
    let body = "const executor = context.getExecutor();
        const wait = (ms, value) => new Promise((resolve) => setTimeout(() => resolve(value), ms));
        const one = await executor.submit(() => 1);
        const all = await executor.submitForComplete([() => wait(20, 'a'), () => wait(1, 'b'), () => 'c'], 5000);
        const late = await executor.submitForComplete([() => wait(5000)], 5).catch((error) => error.name);
        const thrown = await executor.submit(() => { throw new Error('no'); }).catch((error) => error.message);
        return new ScriptResult(true, { one, all, late, thrown });";
    assert_eq!(
        values(&rules, body).await,
        json!({"one": 1, "all": ["a", "b", "c"], "late": "TimeoutError", "thrown": "no"})
    );
}

#[tokio::test]
async fn programs_that_are_allowed_run_without_a_shell_and_end_with_their_time() {
    let rules = rules(programs(&["/bin/sh", "/bin/cat"]));
    let run = |arguments: &str| {
        format!("return new ScriptResult(true, await data.getDefaultProcessClient().execute({arguments}));")
    };
    for (arguments, ended) in [
        (
            "'/bin/sh', ['-c', 'cat; echo $0 >&2; exit 3', 'a b'], { stdin: 'given' }",
            json!({"exitCode": 3, "stdout": "given", "stderr": "a b\n"}),
        ),
        ("'/bin/cat'", json!({"exitCode": 0, "stdout": "", "stderr": ""})),
        (
            "'/bin/sh', ['-c', 'echo $HOME $USER; pwd; kill -9 $$']",
            json!({"exitCode": null, "stdout": "\n/\n", "stderr": ""}),
        ),
        // Its background processes end with it.
        (
            "'/bin/sh', ['-c', 'sleep 100 & echo done']",
            json!({"exitCode": 0, "stdout": "done\n", "stderr": ""}),
        ),
    ] {
        assert_eq!(values(&rules, &run(arguments)).await, ended, "{arguments}");
    }
    let begun = Instant::now();
    for (arguments, told) in [
        (
            "'/bin/sh', ['-c', 'sleep 100'], { timeoutMs: 50 }",
            "has taken longer than 50ms (timeoutMs)",
        ),
        (
            "'/bin/sh', ['-c', 'yes']",
            "standard output of program `/bin/sh` is longer than 1000 bytes (process_output_max)",
        ),
        (
            "'/bin/../bin/sh'",
            "may not be reached: `allow` of `[workflow]` names /bin/sh, /bin/cat in `process`",
        ),
        ("'/bin/sh', ['a\\0b']", "failed"),
        ("'/bin/sh', [1]", "`args` is a text"),
    ] {
        let failure = rules.failure(&rule(&run(arguments))).await;
        assert!(failure.contains(told), "{arguments}: {failure}");
    }
    assert!(
        begun.elapsed().as_secs() < 50,
        "nothing waited for a program to its end"
    );
}

#[tokio::test]
async fn programs_end_with_the_run_and_what_runs_ask_for_is_counted() {
    let rules = rules(programs(&["/bin/sh"]));
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("pid");
    let body = format!(
        "await data.getDefaultProcessClient().execute('/bin/sh', ['-c', 'echo $$ > {0}.part && mv {0}.part {0} && sleep 100']);",
        mark.display()
    );
    let deadline = Instant::now() + Duration::from_secs(2);
    let outcome = rules.run_until(&[&rule(&body)], Some(deadline)).await;
    assert_eq!(outcome, Err(Failure::DeadlinePassed));
    let number = std::fs::read_to_string(&mark).unwrap();
    let process = PathBuf::from(format!("/proc/{}/cmdline", number.trim()));
    // A process that has ended but was not reaped yet has no command line.
    let until = Instant::now() + Duration::from_secs(20);
    while std::fs::read(&process).is_ok_and(|line| !line.is_empty()) {
        assert!(Instant::now() < until, "the program goes on without its run");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let body = "for (let i = 0; i < 9; i++) await data.getDefaultProcessClient().execute('/bin/sh', ['-c', 'true']);";
    let failure = rules.failure(&rule(body)).await;
    assert!(
        failure.contains("this call has begun 8 fetches already (fetches_max)"),
        "{failure}"
    );
}

/// Rules whose clients block, as in Rengine.
fn blocking(allow: Allow, limits: Limits) -> Rules {
    let mut options = options_of(Program::Rules, limits, allow);
    options.blocks_rules = true;
    Rules::of(options)
}

#[tokio::test]
async fn clients_block_rules_that_were_written_for_rengine() {
    let rules = blocking(programs(&["/bin/sh"]), LIMITS);
    let rule =
        |body: &str| format!("function process(context) {{ const data = context.getDataService(); {body} }}");
    let body = "
        const sh = (script) => data.getDefaultProcessClient().execute('/bin/sh', ['-c', script]).stdout;
        const seen = [3, 1, 2].map((n) => sh(`echo ${n}`).trim());
        const tasks = context.getExecutor().submitForComplete([() => sh('echo 4').trim(), () => sh('echo 5').trim() + '!'], 5000);
        let denied;
        try { new ScriptS3Client().getObjectAsString('a'); } catch (error) { denied = error.code; }
        let order = '';
        setTimeout(() => { order += 'timer,'; }, 1);
        Promise.resolve().then(() => { order += 'job,'; });
        sh('sleep 0.05');
        return new ScriptResult(seen.join('') === '312', { seen, tasks, denied, order });";
    // The second run has the engine of the first.
    for _ in 0..2 {
        let answer = rules.run(&[&rule(body)]).await.unwrap();
        assert_eq!(
            answer["values"],
            json!({"seen": ["3", "1", "2"], "tasks": ["4", "5!"], "denied": "not_allowed", "order": "job,timer,"}),
            "{answer}"
        );
    }
    let thrown = rule("new ScriptHttpClient().getForJson('http://127.0.0.1:1/');");
    let failure = rules.failure(&thrown).await;
    assert!(failure.contains("may not fetch from `127.0.0.1:1`"), "{failure}");
    let awaited = "async function process() {
        return new ScriptResult(true, { answer: (await new ScriptProcessClient().execute('/bin/sh', ['-c', 'echo a'])).stdout }); }";
    assert_eq!(
        rules.run(&[awaited]).await.unwrap()["values"],
        json!({"answer": "a\n"})
    );
}

#[tokio::test]
async fn rules_that_block_end_in_time_and_hold_up_nobody() {
    let limits = Limits {
        executors: 1,
        time_max: Duration::from_secs(1),
        cpu_max: Duration::from_secs(1),
        ..LIMITS
    };
    let rules = blocking(programs(&["/bin/sh"]), limits);
    let waits = "function process() {
        try { new ScriptProcessClient().execute('/bin/sh', ['-c', 'sleep 600']); } catch { for (;;); } }";
    let waiting = [waits];
    let mut slow = std::pin::pin!(rules.run(&waiting));
    let quick = async {
        let echo = "function process() {
            return new ScriptResult(true, { pid: new ScriptProcessClient().execute('/bin/sh', ['-c', 'echo $$']).stdout }); }";
        for _ in 0..10 {
            assert!(rules.run(&[echo]).await.unwrap()["values"]["pid"].is_string());
        }
    };
    tokio::select! {
        biased;
        ended = &mut slow => panic!("it ended before the others: {ended:?}"),
        () = quick => {}
    }
    let ended = slow.await;
    assert!(matches!(ended, Err(Failure::Time { .. })), "{ended:?}");
}

#[tokio::test]
async fn a_rule_that_blocks_ends_with_its_memory_and_with_the_script() {
    let limits = Limits {
        executors: 1,
        engines_max: 1,
        ..LIMITS
    };
    let rules = blocking(programs(&["/bin/sh"]), limits);
    let sleep = "new ScriptProcessClient().execute('/bin/sh', ['-c', 'sleep 600'])";
    // It runs out of memory beside a branch that waits, on the same stack.
    let grows = format!(
        "function process() {{ setTimeout(() => {{ const all = []; for (;;) all.push('x'.repeat(1 << 20) + all.length); }}, 1); {sleep}; }}"
    );
    let ended = rules.run(&[&grows]).await;
    assert!(matches!(ended, Err(Failure::Memory { .. })), "{ended:?}");
    // There is one engine, so this one is given up.
    let next = rules.run(&["function process() { return new ScriptResult(true, { n: 1 }); }"]);
    assert_eq!(next.await.unwrap()["values"], json!({"n": 1}));
    let waits = format!("function process() {{ {sleep}; }}");
    let waiting = [&*waits];
    let run = rules.run(&waiting);
    let until = tokio::time::timeout(Duration::from_millis(50), run);
    assert!(until.await.is_err());
    drop(rules);
}

#[tokio::test]
async fn a_rule_that_does_not_await_a_client_fails() {
    let rules = rules(programs(&["/bin/sh"]));
    let call = "data.getDefaultProcessClient().execute('/bin/sh', ['-c', 'sleep 0.05'])";
    for (body, is_refused) in [
        (
            format!("const result = {call};\n return new ScriptResult(result !== null);"),
            true,
        ),
        (
            format!("await null;\n {call};\n return new ScriptResult(true);"),
            true,
        ),
        (format!("await {call}; return new ScriptResult(true);"), false),
        (
            format!("await Promise.all([{call}, {call}]); return new ScriptResult(true);"),
            false,
        ),
        (
            format!("{call}.catch(() => 0); return new ScriptResult(true);"),
            false,
        ),
        (
            format!("const first = {call}; await {call}; await first; return new ScriptResult(true);"),
            false,
        ),
    ] {
        let answer = rules.run(&[&rule(&body)]).await.unwrap();
        let failed = answer.get("failed").map(Value::to_string).unwrap_or_default();
        assert_eq!(
            failed.contains("`ProcessClient.execute` was not awaited"),
            is_refused,
            "{body}: {answer}"
        );
        assert_eq!(failed.is_empty(), !is_refused, "{answer}");
    }
}
