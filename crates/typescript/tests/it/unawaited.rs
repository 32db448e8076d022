//! Calls of rules whose promises nothing awaits.

use forebay_typescript::unawaited_calls;

/// The reported calls of a rule with this body, each with its line and column.
fn calls(body: &str) -> Vec<String> {
    const ADVICE: &str =
        "returns a promise that nothing awaits: write `await` before the call, in an `async` function";
    let rule = format!("async function process(context) {{\n{body}\n}}");
    let mut found = unawaited_calls(&[("rule.js", &rule)]);
    for line in &mut found {
        *line = line.replace(ADVICE, "").replace("rule.js:", "").replace('`', "");
        line.truncate(line.trim_end().len());
    }
    found
}

#[test]
fn calls_whose_results_are_dropped_or_used_as_values_are_found() {
    for (body, expected) in [
        (
            "context.getDataService().getDefaultHttpClient().getForText('u');",
            "2:1: context.getDataService().getDefaultHttpClient().getForText",
        ),
        (
            "const data = context.dataService;\nconst redis = data.obtainRedisDSFacade('cache');\nredis.set('a', 1);",
            "4:1: redis.set",
        ),
        (
            "const http = new ScriptHttpClient();\n  const found = http.getForJson('u');\nreturn new ScriptResult(found.length > 0);",
            "3:17: http.getForJson",
        ),
        (
            "const found = new ScriptHttpClient().getForJson('u');\nreturn new ScriptResult(found === null);",
            "2:15: new ScriptHttpClient().getForJson",
        ),
        (
            "const found = fetch('u'); return new ScriptResult(true, { found });",
            "2:15: fetch",
        ),
        (
            "const found = fetch('u'); return new ScriptResult(true, { a: found });",
            "2:15: fetch",
        ),
        (
            "const found = fetch('u'); return new ScriptResult(found);",
            "2:15: fetch",
        ),
        (
            "const found = fetch('u'); console.log(`${found}`);",
            "2:15: fetch",
        ),
        (
            "const found = fetch('u'); if (found) return 1; while (!found) ;",
            "2:15: fetch",
        ),
        (
            "const found = fetch('u'); return found ? 1 : found && 2;",
            "2:15: fetch",
        ),
        (
            "const found = fetch('u'); return () => found?.ok + 1;",
            "2:15: fetch",
        ),
        ("const unused = fetch('u');", "2:16: fetch"),
        ("const { status } = fetch('u');", "2:20: fetch"),
        (
            "const response = await fetch('u'); return response.json().id;",
            "2:43: response.json",
        ),
        (
            "const [first] = sql.main.query('select 1');",
            "2:17: sql.main.query",
        ),
        (
            "for (const row of sql.main.query('select 1')) ;",
            "2:19: sql.main.query",
        ),
        ("return [...sql.main.query('select 1')];", "2:12: sql.main.query"),
        ("sql.main`select ${1}`;", "2:1: sql.main"),
        (
            "const { main } = sql; main.query('select 1');",
            "2:23: main.query",
        ),
        (
            "sql['main'].tx(async (t) => { await t`select 1`; });",
            "2:1: sql['main'].tx",
        ),
        (
            "const { scores } = pools; if (scores.fetch('/').ok) return 1;",
            "2:31: scores.fetch",
        ),
        (
            "const lock = context.getDataService().getDefaultRedisLockClient().getLock('a');\nif (!lock.tryLock()) return 1;",
            "3:6: lock.tryLock",
        ),
        (
            "return context.getExecutor().submitForComplete([], 1)[0];",
            "2:8: context.getExecutor().submitForComplete",
        ),
        (
            "const http = new ScriptHttpClient();\nlist.forEach((item) => {\n  if (item) http\n    .postForText('u', item);\n});",
            "4:13: http.postForText",
        ),
        ("list.length > 0 && (fetch('u'));", "2:21: fetch"),
    ] {
        assert_eq!(calls(body), [expected], "{body}");
    }
}

#[test]
fn promises_that_are_awaited_or_passed_on_are_not_reported() {
    for body in [
        "await fetch('u');",
        "const found = await fetch('u'); return found.ok;",
        "return (await (await fetch('u')).json()).id;",
        "return fetch('u');",
        "return () => fetch('u');",
        "const go = async () => { const found = await fetch('u'); return found.ok; }; await go();",
        "fetch('u').catch(() => 0);",
        "fetch('u').then((found) => found.ok).finally(done);",
        "void fetch('u');",
        "const found = fetch('u'); await found;",
        "const found = fetch('u'); if (found) (await found).ok;",
        "const found = fetch('u'); found.then((it) => it.ok);",
        "const found = fetch('u'); await Promise.all([found, fetch('v')]);",
        "const found = fetch('u'); list.push(found);",
        "const found = fetch('u'); return { found };",
        "const found = fetch('u'); const other = found; await other;",
        "const found = fetch('u'); return found ?? 1;",
        "const found = fetch('u'); return found instanceof Promise;",
        "let found = fetch('u'); found = 1; return found + 1;",
        "let found; found = fetch('u');",
        "const { then } = fetch('u');",
        "for await (const row of sql.main.cursor('select 1')) ;",
        "sql.main.listen('orders');",
        "context.getDataService().obtainNotifier('EMAIL').kind();",
        "context.getExecutor().submit(() => 1);",
        "new ScriptHttpClient();",
        "store.set('Order', 1, 2);",
        // These names are the rule's own.
        "const fetch = () => 1; fetch();",
        "function fetch() {} fetch();",
        "const sql = { main: new Map() }; sql.main.query();",
        "class ScriptHttpClient {} new ScriptHttpClient().getForText();",
        "list.forEach((sql) => { sql.main.query(); });",
        "{ const http = new ScriptHttpClient(); } http.getForText('u');",
        "let http = new ScriptHttpClient(); http = other; http.getForText('u');",
        "locks.getLock('a').unlock();",
        "other.fetch('u'); other.get('a');",
        // Not a program.
        "fetch('u'",
    ] {
        assert_eq!(calls(body), [""; 0], "{body}");
    }
}

#[test]
fn files_of_a_rule_see_the_names_of_those_before_them() {
    let files = [
        (
            "a.js",
            "const http = new ScriptHttpClient();\nfunction fetch() {}",
        ),
        ("b.js", "const { main } = sql; // no end of line"),
        (
            "index.js",
            "import rates from 'rates';\nfunction process() { fetch('u');\n\thttp.getForText('u'); }\nmain.query('');\n",
        ),
    ];
    let found = unawaited_calls(&files);
    let places: Vec<_> = found
        .iter()
        .filter_map(|line| line.split_once(" returns"))
        .collect();
    let places: Vec<_> = places.into_iter().map(|(place, _)| place).collect();
    assert_eq!(
        places,
        ["index.js:3:2: `http.getForText`", "index.js:4:1: `main.query`"]
    );
}

#[test]
fn deep_and_long_rules_are_no_danger() {
    for code in [
        "a+".repeat(60_000) + "a",
        "a".to_owned() + &".a".repeat(60_000),
        "a".to_owned() + &"()".repeat(60_000),
        "(".repeat(5000) + "a" + &")".repeat(5000),
        "!".repeat(10_000) + "a",
        "if(a);else ".repeat(10_000) + ";",
    ] {
        let found = unawaited_calls(&[("rule.js", &format!("fetch('u');{code}"))]);
        assert_eq!(found.len(), 1, "{}", &code[..9]);
    }
    let long = "fetch('u');".to_owned() + &" ".repeat(200_000);
    assert!(unawaited_calls(&[("rule.js", &long)]).is_empty());
}
