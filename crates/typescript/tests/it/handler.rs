//! Mistakes that keep a file from being loaded as a handler, and what is left to the runtime.

use std::path::Path;

use forebay_typescript::handler_problems;

/// The problems of a file for Node, and for Bun.
fn problems(file: &str, source: &str) -> [Vec<String>; 2] {
    [false, true].map(|is_bun| {
        let problems = handler_problems(source, Path::new(file), is_bun);
        problems.iter().map(ToString::to_string).collect()
    })
}

#[test]
fn mistakes_are_found_at_their_places() {
    for (file, source, start) in [
        (
            "a.mjs",
            "export default () => {\n  const é = ;\n};",
            "2:13: SyntaxError: ",
        ),
        ("a.mjs", "export default {", "1:17: SyntaxError: "),
        (
            "a.mjs",
            "return 1;\nexport default () => 1;",
            "1:1: SyntaxError: ",
        ),
        (
            "a.js",
            "export default () => 1;\nlet a = 1 +;",
            "2:12: SyntaxError: ",
        ),
        ("a.cjs", "module.exports = () => {", "1:25: SyntaxError: "),
        (
            "a.ts",
            "export default () => 1;\n  namespace A { export const x = 1 }",
            "2:3: a namespace with values is more than types",
        ),
        ("a.mts", "export default (a: ) => 1;", "1:20: "),
        ("a.cts", "module.exports = (a: ) => 1;", "1:22: SyntaxError: "),
        ("a.mjs", "", "1:1: exports no handler"),
        (
            "a.mjs",
            "export const handlers = (request) => 1;",
            "1:1: exports no handler",
        ),
        (
            "a.js",
            "import 'a';\nconst handler = () => 1;\nexport { handler as handle };",
            "1:1: exports no handler",
        ),
        ("a.js", "const handler = () => 1;", "1:1: exports no handler"),
        (
            "a.ts",
            "export default interface A { a: string }\nexport type handler = 1;",
            "1:1: exports no handler",
        ),
    ] {
        for found in problems(file, source) {
            assert!(
                found.first().is_some_and(|found| found.starts_with(start)),
                "{file}: {source}\n{found:?}\nnot {start}"
            );
            assert_eq!(found.len(), 1, "{found:?}");
        }
    }
}

#[test]
fn what_can_be_loaded_has_no_problems() {
    for (file, source) in [
        ("a.mjs", "import express from 'express';\nexpress().listen(3000);"),
        ("a.mjs", "import { start } from './server.mjs';\nstart();"),
        ("a.js", "require('./server');"),
        ("a.ts", "import { serve } from 'h3';\nserve(app as App);"),
        (
            "a.mjs",
            "const { start } = await import(process.env.SERVER);\nstart();",
        ),
        (
            "a.mjs",
            "#!/usr/bin/env node\nexport function handler() { return 1; }",
        ),
        ("a.mjs", "\u{feff}export default class {}"),
        ("a.mjs", "export * from './b.mjs';"),
        ("a.mjs", "export { default } from './b.mjs';"),
        ("a.mjs", "export * as handler from './b.mjs';"),
        ("a.mjs", "import b from './b.mjs';\nexport { b as 'default' };"),
        ("a.mjs", "export const { handler } = { handler() {} };"),
        (
            "a.mjs",
            "import a from './a.json' with { type: 'json' };\nexport default () => import.meta.url + a;",
        ),
        (
            "a.mjs",
            "await using a = b();\nexport let handler = () => /[\\p{L}--q]/v;",
        ),
        ("a.js", "const a = await b();\nexport default a;"),
        ("a.js", "if (process.env.A) return;\nmodule.exports = () => 010;"),
        (
            "a.js",
            "const await = 1, yield = 2;\nexports.handler = () => await + yield;",
        ),
        ("a.js", "with (a) b();\nthis.handler = () => 1;"),
        (
            "a.cjs",
            "if (process.env.A) return;\nObject.assign(module, require('./b'));",
        ),
        ("a.ts", "enum A { B }\nexport default (a: A): number => A.B;"),
        ("a.cts", "import a = require('./a');\nexport = a;"),
        ("a.cts", "const a: number = 1;\nmodule.exports = () => a;"),
        (
            "node_modules/a/a.ts",
            "namespace A { export const b = 1 }\nexport default () => A.b;",
        ),
        ("a.coffee", "export default -> 1"),
    ] {
        assert_eq!(problems(file, source), [[""; 0]; 2], "{file}: {source}");
    }
}

#[test]
fn bun_runs_more_than_node() {
    for (file, source) in [
        ("a.js", "export default () => <p>hello</p>;"),
        ("a.js", "import b from 'b';\nmodule.exports = b;"),
        ("a.mjs", "export default @logged class {}"),
    ] {
        let [node, bun] = problems(file, source);
        assert_eq!((node.len(), bun.len()), (1, 0), "{source}: {node:?} {bun:?}");
    }
}

#[test]
fn a_handler_that_is_too_long_or_too_deep_is_left_to_the_runtime() {
    let chain = format!("export default () => {}1;", "1+".repeat(60_000));
    let nested = |depth| format!("export default {}1{};", "(".repeat(depth), ")".repeat(depth));
    let long = format!("let a = ;{}", " ".repeat(128 << 10));
    for source in [chain, nested(900), nested(60_000), long] {
        assert_eq!(problems("a.mjs", &source), [[""; 0]; 2]);
    }
}
