//! Rules in engines that are reused by one call after another, and cleaned in between.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_script::{Allow, Awaited, Failure, Limits, Options, Program, Rule, RuleEngine, Script};
use forebay_workflow::{
    BegunRun, Engine as _, EngineCall, LogLine, NodeName, Priority, RuleFile, RuleModule, RunHost, RunInput,
};
use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use serde_json::{Value, json};

use crate::scripts::{LIMITS, options_of, text};

/// Runs rules one after another, and answers with the outcome of the last and the log.
async fn one_after_another(engine: RuleEngine, rules: Vec<Arc<Rule>>, logged: Rc<Log>) -> Vec<u8> {
    let mut last = None;
    for (at, rule) in rules.into_iter().enumerate() {
        let outcome = engine.evaluate(EngineCall {
            rule,
            node: NodeName {
                id: (at + 1).to_string().into(),
                name: None,
            },
            kind: "PROCESS",
            last: last.take(),
            item: None,
            time_max: None,
        });
        match outcome.await {
            Ok(outcome) => last = Some(outcome),
            Err(reason) => return json!({"failed": reason}).to_string().into_bytes(),
        }
    }
    let values = last.map_or_else(|| "null".to_owned(), |last| last.values);
    let values: Value = serde_json::from_str(&values).unwrap();
    let log = logged.0.take();
    json!({"values": values, "log": log}).to_string().into_bytes()
}

#[derive(Default)]
struct Log(RefCell<Vec<String>>);

impl RunHost<Rule> for Log {
    fn log(&self, line: LogLine) {
        self.0.borrow_mut().push(format!("{} {}", line.level, line.text));
    }

    fn module(&self, _from: &str, name: &str) -> Result<RuleModule<Rule>, String> {
        Err(format!("there is no module `{name}`"))
    }

    fn evaluate(
        &self,
        key: String,
        _input: String,
        _wants_trace: bool,
    ) -> Pin<Box<dyn Future<Output = Result<String, String>>>> {
        Box::pin(std::future::ready(Err(format!("there is no decision `{key}`"))))
    }

    fn expression(&self, text: &str, _context: &str, _is_unary: bool) -> Result<String, String> {
        Err(format!("`{text}` has no value"))
    }
}

pub(crate) struct Rules(Script);

impl Rules {
    /// A single thread with one engine, so that each call could see what the one before it has left.
    fn new() -> Self {
        Self::with(Limits {
            executors: 1,
            engines_max: 1,
            ..LIMITS
        })
    }

    fn with(limits: Limits) -> Self {
        Self::of(options_of(Program::Rules, limits, Allow::default()))
    }

    pub(crate) fn of(options: Options) -> Self {
        Self(Script::start(options).unwrap())
    }

    /// Waits until all calls that were begun have an engine.
    async fn until_none_waits(&self) {
        while self.0.options().counts.read().queued > 0 {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn run(&self, rules: &[&str]) -> Result<Value, Failure> {
        self.run_until(rules, None).await
    }

    pub(crate) async fn run_until(
        &self,
        rules: &[&str],
        deadline: Option<Instant>,
    ) -> Result<Value, Failure> {
        let answer = self.begin(rules, deadline, Priority::Normal)?.await?;
        Ok(serde_json::from_str(text(&answer)).unwrap())
    }

    fn begin(
        &self,
        rules: &[&str],
        deadline: Option<Instant>,
        priority: Priority,
    ) -> Result<Awaited, Failure> {
        let rules = rules.iter().enumerate().map(|(at, text)| {
            let file = RuleFile {
                name: format!("{at}.js"),
                text: (*text).to_owned(),
            };
            Arc::new(Rule::new(&at.to_string(), &[file]))
        });
        let rules: Vec<_> = rules.collect();
        let input = RunInput {
            requested_ms: 1,
            client: Some("c".into()),
            user: Some(r#"{"subject":"ada","scopes":["read"]}"#.into()),
            request_id: "t".into(),
            is_traced: true,
            workflow: "w".into(),
            args: r#"{"n":5}"#.into(),
            attributes: r#"{"foo":"bar"}"#.into(),
        };
        let begin = Box::new(move |engine| {
            let host: Rc<Log> = Rc::default();
            BegunRun {
                result: Box::pin(one_after_another(engine, rules, Rc::clone(&host))),
                host,
            }
        });
        self.0.run(input, deadline, priority, begin)
    }

    pub(crate) async fn failure(&self, rule: &str) -> String {
        let answer = self.run(&[rule]).await.unwrap();
        answer["failed"]
            .as_str()
            .unwrap_or_else(|| panic!("{rule}: {answer}"))
            .to_owned()
    }
}

#[tokio::test]
async fn rules_see_their_call_and_what_was_before_them() {
    let rules = Rules::new();
    let first = "function process(context) {
        const parameter = context.getParameter();
        console.log('node', context.getId(), context.getType());
        return new ScriptResult(parameter.isTrace(), {
            n: context.getArgs().n + 1, foo: context.getAttributes().foo, last: context.getLastResult(), client: parameter.getClientId(),
            user: parameter.getUser(),
        }).addValue('more', 'x');
    }";
    let second = "async function process(context) {
        await new Promise((resolve) => setTimeout(resolve, 1));
        const { n, foo, last, client, user, more } = context.getLastResult().getValueMap();
        return new ScriptResult(true, { n, foo, last, client, user, more, state: context.getLastResult().getState() });
    }";
    let answer = rules.run(&[first, second]).await.unwrap();
    assert_eq!(
        answer,
        json!({"values": {"n": 6, "foo": "bar", "last": null, "client": "c", "user": {"subject": "ada", "scopes": ["read"]}, "more": "x", "state": true}, "log": ["1 node 1 PROCESS"]})
    );
}

#[tokio::test]
async fn what_a_run_leaves_is_not_there_for_the_next() {
    let rules = Rules::new();
    for left in [
        "globalThis.left = 1",
        "left = 1",
        "var left = 1; this_is_left = left",
        "(0, eval)('var left = 1')",
        "(0, eval)('function left() {}')",
        "Object.defineProperty(globalThis, 'left', { get: () => 1, configurable: true })",
        "Array.prototype.left = 1",
        "Object.prototype.left = 1",
        "Math.left = 1",
        "JSON.parse = () => 1",
        "console.left = 1",
        "ScriptResult.prototype.left = 1",
        "Object.getPrototypeOf(function* () {}).left = 1",
        "Object.getPrototypeOf([][Symbol.iterator]()).left = 1",
        "process.constructor.left = 1",
        "setTimeout(() => { globalThis.left = 1; }, 1)",
        "Promise.resolve().then(() => { globalThis.left = 1; })",
        "Array = 1; Map = 1; undefined = 1",
        "try { Object.setPrototypeOf(Array.prototype, { left: 1 }); } catch {}",
        "try { context.constructor.left = 1; } catch {}",
        "Symbol.iterator.left = 1; parseInt.left = 1; URL.left = 1; crypto.left = 1; crypto.subtle.left = 1",
        "for (left = 0; left < 3; left++);",
        "Object.setPrototypeOf(globalThis, { left: 1 })",
        "globalThis.__proto__ = { left: 1 }",
        "Object.preventExtensions(globalThis)",
        "Error.prepareStackTrace = () => 'left'; Error.stackTraceLimit = 0",
        "context.getParameter().constructor.prototype.left = 1",
        "console.log({ [Symbol.for('nodejs.util.inspect.custom')](depth, options, inspect) { inspect.left = 1; return ''; } })",
        "Object.getPrototypeOf([].values().map((each) => each)).left = 1",
        "Object.getPrototypeOf(Iterator.from({ next() {} })).left = 1",
        "new Response('x').body.constructor.prototype.left = 1; Blob.left = 1",
    ] {
        let rule = format!("function process(context) {{ {left}; return new ScriptResult(true); }}");
        let answer = rules.run(&[&rule]).await.unwrap();
        assert!(answer.get("failed").is_none(), "{left}: {answer}");
        let look = "function process(context) {
            const found = [];
            const see = (name, is) => { if (is) found.push(name); };
            see('global', typeof left !== 'undefined' || 'left' in globalThis || 'this_is_left' in globalThis);
            see('array', 'left' in [] || typeof Array !== 'function' || !Array.isArray([]));
            see('object', 'left' in {});
            see('intrinsics', [Math, JSON, console, ScriptResult.prototype, Function, ScriptContext, Symbol.prototype, parseInt, URL, crypto, crypto.subtle].some((each) => 'left' in each));
            see('itself', !Object.isExtensible(globalThis) || Object.getPrototypeOf(globalThis) !== Object.prototype);
            see('stack', !new Error('x').stack.includes('process'));
            see('parameter', 'left' in context.getParameter());
            console.log({ [Symbol.for('nodejs.util.inspect.custom')](depth, options, inspect) { see('inspect', 'left' in inspect); return ''; } });
            see('helpers', 'left' in [].values().map((each) => each) || 'left' in Iterator.from({ next() {} }));
            see('web', 'left' in new Response('x').body || 'left' in Blob);
            see('parse', JSON.parse('2') !== 2 || typeof Map !== 'function');
            see('generator', 'left' in Object.getPrototypeOf(function* () {}) || 'left' in Object.getPrototypeOf([][Symbol.iterator]()));
            return new ScriptResult(true, { found });
        }";
        let answer = rules.run(&[look]).await.unwrap();
        assert_eq!(answer["values"]["found"], json!([]), "{left}");
    }
}

#[tokio::test]
async fn what_programs_do_to_their_own_objects_they_may() {
    let rules = Rules::new();
    let rule = "function process() {
        'use strict';
        const error = new Error('a');
        error.name = 'Mine';
        error.message = 'b';
        class Wrong extends TypeError { constructor(message) { super(message); this.name = 'Wrong'; } }
        function Point() {}
        Point.prototype.toString = () => 'point';
        const own = { };
        own.toString = () => 'own';
        own.constructor = 1;
        own.hasOwnProperty = 2;
        const list = [1, 2];
        list.push = () => 3;
        const later = () => 0;
        return new ScriptResult(true, {
            error: String(error), wrong: String(new Wrong('c')), point: `${new Point()}`, own: `${own}`, keys: Object.keys(own), push: list.push(), list: [].concat(list).length,
            plain: {}.toString(), sorted: [3, 1, 2].sort(), later: later.name,
        });
    }";
    let answer = rules.run(&[rule]).await.unwrap();
    assert_eq!(
        answer["values"],
        json!({
            "error": "Mine: b", "wrong": "Wrong: c", "point": "point", "own": "own", "keys": ["toString", "constructor", "hasOwnProperty"], "push": 3, "list": 2,
            "plain": "[object Object]", "sorted": [1, 2, 3], "later": "later",
        })
    );
}

#[tokio::test]
async fn failures_say_what_and_where() {
    let rules = Rules::new();
    let thrown = rules
        .failure("function process() {\n  throw new RangeError('too far');\n}")
        .await;
    assert!(thrown.starts_with("RangeError: too far\n"), "{thrown}");
    assert!(thrown.contains("0.js:2:"), "{thrown}");
    let syntax = rules.failure("function process() {\n  return (;\n}").await;
    assert!(
        syntax.starts_with("SyntaxError: ") && syntax.contains("0.js:2"),
        "{syntax}"
    );
    for (rule, reason) in [
        ("const x = 1;", "it has no function `process`"),
        ("function process() {}", "gives a ScriptResult, not undefined"),
        (
            "function process() { return { state: true }; }",
            "gives a ScriptResult, not object",
        ),
        (
            "function process() { return new ScriptResult('yes'); }",
            "true or false, not string",
        ),
        ("function process() { throw null; }", "it threw null"),
        (
            "function process() { throw { get message() { throw 1; }, toJSON() { throw 2; } }; }",
            "it threw what cannot be shown",
        ),
        (
            "async function process() { await 0; throw new Error('later'); }",
            "Error: later",
        ),
        (
            "async function process() { await 0; return 7; }",
            "gives a ScriptResult, not number",
        ),
        (
            "function process() { const a = {}; a.a = a; return new ScriptResult(true, { a }); }",
            "circular",
        ),
        ("function process() { return process(); }", "stack"),
    ] {
        let failure = rules.failure(rule).await;
        assert!(failure.contains(reason), "{rule}: {failure}");
    }
}

#[tokio::test]
async fn rules_without_end_are_stopped_and_the_next_call_is_answered() {
    let rules = Rules::new();
    for endless in [
        "function process() { while (true) {} }",
        "async function process() { await new Promise(() => {}); }",
        "async function process() { for (;;) await 0; }",
    ] {
        let deadline = Instant::now() + Duration::from_millis(300);
        let outcome = rules.run_until(&[endless], Some(deadline)).await;
        assert_eq!(outcome, Err(Failure::DeadlinePassed), "{endless}");
        let answer = rules
            .run(&["function process() { return new ScriptResult(true, { a: 1 }); }"])
            .await;
        assert_eq!(answer.unwrap()["values"], json!({"a": 1}), "{endless}");
    }
}

#[tokio::test]
async fn rules_that_take_too_much_memory_fail_and_the_next_call_is_answered() {
    let rules = Rules::new();
    let failure = rules
        .failure(
            "function process() { const all = []; for (;;) all.push('x'.repeat(1 << 20) + all.length); }",
        )
        .await;
    assert!(failure.starts_with("InternalError: out of memory"), "{failure}");
    let answer = rules
        .run(&["function process() { return new ScriptResult(true, { a: 1 }); }"])
        .await;
    assert_eq!(answer.unwrap()["values"], json!({"a": 1}));
}

#[tokio::test]
async fn calls_that_wait_have_engines_of_their_own() {
    let rules = Rules::with(Limits {
        executors: 1,
        engines_max: 3,
        ..LIMITS
    });
    let rule = "async function process() {
        const seen = typeof mine;
        mine = 1;
        await new Promise((resolve) => setTimeout(resolve, 20));
        return new ScriptResult(true, { seen });
    }";
    let own = [rule];
    let calls = (0..12).map(|_| rules.run(&own));
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer.unwrap()["values"], json!({"seen": "undefined"}));
    }
}

#[tokio::test]
async fn rules_have_tools() {
    let rule = r#"function process(context) {
        const key = AES.generateKeyToBase64(), vector = Coding.toBase64("1234567890abcdef"), text = "abcdefghijklmnopqrstuvwxyz";
        const pair = RSA.generateKeyToBase64();
        const date = DateHolder.parseDate("2023-02-11 09:24:02", "yyyy-MM-dd HH:mm:ss");
        return new ScriptResult(true)
            .addValue("date", date)
            .addValue("coding", Coding.toBase58("1234567890abcdef"))
            .addValue("hashing", Hashing.hmacSha512("abc", "1234567890abcdef"))
            .addValue("aes", AES.decryptCbcPkcs7FromBase64(key, vector, AES.encryptCbcPkcs7ToBase64(key, vector, text)))
            .addValue("rsa", RSA.decryptFromBase64(true, pair.getPrivateKey(), RSA.encryptToBase64(false, pair.getPublicKey(), text)))
            .addValue("random", RandomHolder.randomNumeric(16).length)
            .addValue("uuid", UUID.randomUUID().toString().length)
            .addValue("event", new RengineEvent("login", {time: 1}).getType())
            .addValue("metrics", PrometheusParser.parse("a 1")[0].getValue())
            .addValue("assert", Assert.hasTextOf("text", "name"))
            .addValue("files", typeof Files.readToString);
    }"#;
    assert_eq!(
        Rules::new().run(&[rule]).await.unwrap()["values"],
        json!({
            "date": "2023-02-11T09:24:02.000+00:00",
            "coding": "75M7MfQsC4p2rUNe7dDjXK",
            "hashing": "z/EfkNDTK/okjQ+jyOQ+vI22o9zFjK38cTtL9r9sEy1a5thhkF4b9sr6LZdR1yE4wIPwNIzApzX7mBcKg0nT+Q==",
            "aes": "abcdefghijklmnopqrstuvwxyz",
            "rsa": "abcdefghijklmnopqrstuvwxyz",
            "random": 16,
            "uuid": 36,
            "event": "login",
            "metrics": "1",
            "assert": "text",
            "files": "function",
        })
    );
}

#[tokio::test]
async fn no_rule_can_change_tools_or_what_they_give_for_others() {
    let rule = r#"function process() {
        const event = new RengineEvent("login", {});
        const given = {
            date: DateHolder.getDate(), later: DateHolder.getDateOf(5, 1, "dd"), parsed: DateHolder.parseDate("1", "dd"),
            pair: new RSA.RsaKeyPair("a", "b"), metrics: PrometheusParser.parse("a 1")[0], event, source: event.getSource(),
            location: event.getSource().getLocation(), info: new Files.FileInfo("a", "b", "c"), frame: new Files.ReadTailFrame(0, 0, 0, [], true),
            AES, Assert, Coding, DateHolder, Files, Hashing, PrometheusParser, RandomHolder, RengineEvent, RSA, UUID,
        };
        const changeable = [];
        for (const [name, value] of Object.entries(given)) {
            for (let next = Object.getPrototypeOf(value); next !== null; next = Object.getPrototypeOf(next)) {
                if (!Object.isFrozen(next) || !Object.isFrozen(next.constructor)) changeable.push(name);
            }
            if (typeof value === "function" && !Object.isFrozen(value)) changeable.push(name);
        }
        return new ScriptResult(true, {changeable});
    }"#;
    let answer = Rules::new().run(&[rule]).await.unwrap();
    assert_eq!(answer["values"]["changeable"], json!([]), "{answer}");
}

#[tokio::test]
async fn rules_have_the_interfaces_of_the_web() {
    let rules = Rules::new();
    let rule = "async function process() {
        const form = new FormData();
        form.append('a', new Blob(['b']), 'c.txt');
        const target = new EventTarget();
        let heard = 0;
        target.addEventListener('x', () => heard++);
        target.dispatchEvent(new Event('x'));
        const stream = new ReadableStream({ start(controller) { controller.enqueue(new TextEncoder().encode('d')); controller.close(); } });
        return new ScriptResult(true, { file: form.get('a').name, heard, text: await new Response(stream).text(), url: new URL('/e', 'http://f').href, aborted: AbortSignal.abort().aborted });
    }";
    let answer = rules.run(&[rule]).await.unwrap();
    assert_eq!(
        answer["values"],
        json!({"file": "c.txt", "heard": 1, "text": "d", "url": "http://f/e", "aborted": true})
    );
}

#[test]
fn a_text_that_leaves_the_braces_around_it_is_refused_and_does_nothing() {
    let check = |text: &str| {
        let file = RuleFile {
            name: "escape.js".into(),
            text: text.into(),
        };
        Rule::new("escape", &[file]).check()
    };
    for text in [
        "});\nlet n = 0;\n(() => {\nfunction process() {}",
        "}); for (;;); (() => {",
        "} for (;;); {",
        "} } for (;;); { {",
        "function process() {} /*",
        "return (;",
    ] {
        let fault = check(text).unwrap_err();
        assert!(fault.what.starts_with("SyntaxError: "), "{text}: {fault}");
        assert_eq!(fault.file, std::path::Path::new("escape.js"), "{text}");
    }
    assert_eq!(check("for (;;);"), Ok(()));
    assert_eq!(
        check("const a = 1; class B {} async function process() { await a; } // end"),
        Ok(())
    );
}

/// Occupies the only engine until its call is cancelled.
const STAYS: &str = "function process() { return new Promise(() => {}); }";
const PASSES: &str = "function process() { return new ScriptResult(true); }";

#[tokio::test]
async fn runs_with_a_higher_priority_overtake_those_that_wait() {
    let rules = Rules::new();
    let first = rules.begin(&[STAYS], None, Priority::Low).unwrap();
    // It must have the engine before others arrive, which would overtake it.
    rules.until_none_waits().await;
    let waiting = [
        Priority::Low,
        Priority::Normal,
        Priority::High,
        Priority::Normal,
        Priority::High,
    ];
    let waiting = waiting.map(|priority| (priority, rules.begin(&[PASSES], None, priority).unwrap()));
    let mut ends: FuturesUnordered<_> = waiting
        .into_iter()
        .map(async |(priority, awaited)| {
            awaited.await.unwrap();
            priority
        })
        .collect();
    // All are awaited from here on, and finish in the order in which they end.
    assert_eq!(ends.next().now_or_never(), None);
    drop(first);
    let order: Vec<_> = ends.collect().await;
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(order.len(), 5);
}

#[tokio::test]
async fn a_run_that_waits_makes_room_for_one_with_a_higher_priority() {
    let rules = Rules::with(Limits {
        executors: 1,
        engines_max: 1,
        in_flight_max: 2,
        ..LIMITS
    });
    let busy = Failure::Busy { in_flight_max: 2 };
    let first = rules.begin(&[STAYS], None, Priority::Low).unwrap();
    // It must have its engine before another call can be the last one that waits.
    rules.until_none_waits().await;
    let low = rules.begin(&[PASSES], None, Priority::Low).unwrap();
    let high = rules.begin(&[PASSES], None, Priority::High).unwrap();
    assert_eq!(low.await.unwrap_err(), busy, "it was displaced");
    for priority in [Priority::High, Priority::Normal] {
        let refused = rules.begin(&[PASSES], None, priority);
        assert_eq!(
            refused.unwrap_err(),
            busy,
            "it displaces only what comes after it"
        );
    }
    drop(first);
    high.await.unwrap();
}
