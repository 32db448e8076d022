//! Records in the handlers of workers: the same as over HTTP, under the same configuration.

use forebay_testkit::{Setup, wait_until};

use super::{ACCESS, ask};
use crate::{store::text, support::Runtime};

const HANDLER: &str = "
import { router } from 'forebay';
import { records, tql } from 'forebay/records';
const app = router();
app.get('/api/ready', () => 'ready');
app.post('/api/tql', async (request) => tql(await request.text()));
app.post('/api/articles', async (request) => ({ ref: records.create(await request.json()) }));
app.get('/api/articles/:ref', (request) => records.readText(Number(request.params.ref), 'Article'));
export default app;";

#[test]
fn a_handler_and_the_server_see_the_same_records() {
    for runtime in Runtime::BOTH {
        let name = format!("{runtime:?}").to_lowercase();
        let server = Setup::new(&format!(
            "[store]\n[store.access]\n{ACCESS}\n[records]\ntype_key = \"meta.kind\"\nrows_max = 2\n\
             [pool.api]\nhandler = \"api.mjs\"\nruntime = \"{name}\"\n[[route]]\npath = \"/api/*\"\npool = \"api\"\n\
             [[route]]\npath = \"/json/*\"\nrecords = {{}}\n[[route]]\npath = \"/tql\"\ntql = {{}}\n"
        ))
        .env("TOKEN", "secret")
        .file("api.mjs", HANDLER)
        .start();
        wait_until("the pool to answer", || server.get("/api/ready").status == 200);
        let mut client = server.connect();
        let record = br#"{"n":1,"meta":{"kind":"Article"}}"#;
        let made = ask(&mut client, "POST", "/api/articles", &[], record);
        assert_eq!((made.status, made.text()), (200, r#"{"ref":1}"#), "{name}");
        let stored = r#"{"meta":{"kind":"Article"},"n":1}"#;
        assert_eq!(text(&mut client, "/json/0000000000000001"), stored);
        assert_eq!(text(&mut client, "/api/articles/1"), stored);
        ask(
            &mut client,
            "POST",
            "/json/",
            &[],
            br#"{"meta":{"kind":"Entry"},"n":2}"#,
        );
        ask(
            &mut client,
            "POST",
            "/json/",
            &[],
            br#"{"meta":{"kind":"Secret"},"n":3}"#,
        );
        for statement in [
            "WHERE EQ(meta.kind 'Article') SELECT n",
            r#"{"where":["LTE","n",2],"select":{"r":"$ref","n":"n"},"sort":"-n"}"#,
            "WHERE 1 UPDATE {\"meta\":{\"kind\":\"Article\"},\"n\":1}",
        ] {
            let by_server = ask(&mut client, "POST", "/tql", &[], statement.as_bytes());
            let by_handler = ask(&mut client, "POST", "/api/tql", &[], statement.as_bytes());
            assert_eq!(by_server.status, 200, "{statement}: {by_server:?}");
            assert_eq!(by_handler.text(), by_server.text(), "{name}: {statement}");
        }
        // Handlers reach every kind, within the same limits.
        ask(
            &mut client,
            "POST",
            "/api/tql",
            &[],
            br#"INSERT {"meta":{"kind":"Closed"},"n":4}"#,
        );
        let all = ask(&mut client, "POST", "/api/tql", &[], b"SELECT n SORT n");
        assert_eq!(
            all.text(),
            r#"{"code":0,"results":[1,2],"truncated":{"by":"rows_max","limit":2}}"#
        );
        let closed = ask(
            &mut client,
            "POST",
            "/api/tql",
            &[],
            b"WHERE EQ(meta.kind 'Closed') SELECT n",
        );
        assert_eq!(closed.text(), r#"{"code":0,"results":[4]}"#);
    }
}
