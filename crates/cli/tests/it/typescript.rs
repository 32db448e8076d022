//! TypeScript from the command line and in workers.

use forebay_testkit::Folder;

use crate::run::{Serving, run};

#[test]
fn strip_prints_javascript_or_says_what_to_write_and_where() {
    let folder = Folder::new();
    folder.write("api.ts", "export const n: number = 1;\n");
    let ended = run(folder.path(), &["strip", "api.ts"]);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (0, "export const n         = 1;\n")
    );
    folder.write(
        "api.ts",
        "export const n = 1;\nnamespace Color { export const red = 1 }\n",
    );
    let ended = run(folder.path(), &["strip", "api.ts"]);
    assert_eq!((ended.code, ended.out.as_str()), (1, ""));
    assert!(
        ended
            .err
            .starts_with("error: api.ts:2:1: a namespace with values is more than types; write a file"),
        "{ended:?}"
    );
    let missing = run(folder.path(), &["strip", "missing.ts"]);
    assert!(
        missing
            .err
            .starts_with("error: cannot read missing.ts\n  because: No such file"),
        "{missing:?}"
    );
}

#[test]
fn workers_of_both_runtimes_load_typescript() {
    for runtime in ["node", "bun"] {
        let folder = Folder::new();
        folder.write(
            "name.ts",
            "export type Name = string;\nexport const name = 'ada' as Name;\n",
        );
        folder.write(
            "api.ts",
            "import { router } from 'forebay';\nimport { name, type Name } from './name.ts';\n\
             const app = router();\napp.get('/', (): { name: Name } => ({ name }));\nexport default app;\n",
        );
        let config = format!(
            "[pool.api]\nhandler = \"api.ts\"\nruntime = \"{runtime}\"\n[[route]]\npath = \"/*\"\npool = \"api\"\n"
        );
        folder.write("forebay.toml", config);
        let serving = Serving::start(folder.path(), &[]);
        assert_eq!(serving.get("/").text(), "{\"name\":\"ada\"}", "{runtime}");
    }
}
