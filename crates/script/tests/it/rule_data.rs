//! The data services of rules: the parts of `context.getDataService()` and `context.getExecutor()` that need no other server.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_script::{Allow, Failure, Program};
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
            "MongoDB is not there: documents are kept in `store`",
        ),
        ("getDefaultSSHClient()", "SSH is not there"),
        ("getDefaultTCPClient()", "TCP is not there"),
        (
            "obtainNotifier('DINGTALK')",
            "DINGTALK is not there: post the message to the webhook",
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
