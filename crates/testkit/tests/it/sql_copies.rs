//! Rows that handlers copy in and out, with both drivers.

use forebay_testkit::{Postgres, wait_until};
use serde_json::json;

use crate::sql_handlers::{get, make, number, pool, server};

const COPIES: &str = r"
  async import(request) {
    return { count: await main.copyIn('copy copies from stdin (format csv)', await request.text()) };
  },
  async pieces() {
    async function* rows() {
      for (let id = 0; id < 100_000; id++) yield `${id},note ${id}\n`;
      yield new TextEncoder().encode('100000,é\n');
      yield new Uint8Array(0);
    }
    return main.copyIn('copy copies from stdin (format csv)', rows());
  },
  export: () => reply(main.copyOut('copy (select * from copies order by id) to stdout (format csv, header)'), { headers: { 'content-type': 'text/csv' } }),
  async binary() {
    const pieces = [];
    for await (const piece of main.copyOut('copy copies to stdout (format binary)')) pieces.push(piece);
    await main.query('delete from copies');
    return [pieces.every((piece) => piece instanceof Uint8Array), await main.copyIn('copy copies from stdin (format binary)', pieces)];
  },
  async wrong() {
    const codes = [];
    const note = async (run) => codes.push((await failing(run)).code ?? (await failing(run)).message);
    await note(() => main.copyIn('copy copies from stdin', 'x\ty\n'));
    await note(() => main.copyIn('select 1', ''));
    await note(() => main.copyIn('copy copies to stdout', ''));
    await note(() => main.copyIn('copy copies from stdin', [7]));
    await note(() => main.copyIn('copy copies from stdin', (function* () { yield '-1\ta\n'; throw new TypeError('no more'); })()));
    await note(async () => { for await (const _ of main.copyOut('copy copies from stdin')); });
    return [codes, await main.value('select count(*) from copies where id < 0')];
  },
  async early() {
    for await (const piece of main.copyOut(`copy (select repeat('x', 1000), generate_series(1, 1000000000)) to stdout /* endless */`)) return piece.length > 0;
  },
  async within() {
    const error = await failing(() => main.tx(async (t) => {
      const count = await t.copyIn('copy copies from stdin', ['-5\ta\n', '-6\tb\n']);
      let out = '';
      for await (const piece of t.copyOut('copy (select * from copies where id < 0 order by id) to stdout')) out += piece;
      throw new TypeError(`${count} ${out}`);
    }));
    const missing = await failing(() => main.tx((t) => t.copyIn('copy copies from stdin', (async function* () { yield '-7\ta\n'; await t.query('select 1'); })())));
    return [error.message, missing.code, await main.value('select count(*) from copies where id < 0')];
  },
";

#[test]
fn rows_are_copied_in_and_out_piece_by_piece() {
    let postgres = Postgres::start();
    for driver in ["async", "blocking", "pool"] {
        make(
            &postgres,
            "drop table if exists copies; create table copies (id int primary key, note text); grant all on copies to public",
        );
        let server = match driver {
            "pool" => pool(&postgres, COPIES),
            driver => server(
                &postgres,
                driver,
                COPIES,
                "memory_max = \"16MiB\"\ncpu_max = \"20s\"\ntime_max = \"60s\"",
            ),
        };
        let imported = server.post("/import", b"-1,\"a,b\"\n-2,\n");
        assert_eq!(imported.json(), json!({"count": 2}), "{driver}: {}", server.log());
        let out = server.get("/export");
        assert_eq!(out.header("content-type"), Some("text/csv"));
        assert_eq!(out.text(), "id,note\n-2,\n-1,\"a,b\"\n");
        make(&postgres, "delete from copies");
        assert_eq!(get(&server, "/pieces"), json!(100_001), "{driver}");
        let out = server.get("/export");
        assert_eq!(out.text().lines().count(), 100_002);
        assert!(out.text().ends_with("\n99999,note 99999\n100000,é\n"));
        assert_eq!(get(&server, "/binary"), json!([true, 100_001]), "{driver}");
        assert!(server.get("/export").body == out.body, "{driver}");
        assert_eq!(
            get(&server, "/wrong"),
            json!([
                [
                    "22P02",
                    "not_sendable",
                    "not_sendable",
                    "copyIn() takes strings and Uint8Array, not a number",
                    "no more",
                    "not_sendable"
                ],
                0
            ]),
            "{driver}"
        );
        assert_eq!(
            get(&server, "/within"),
            json!(["2 -6\tb\n-5\ta\n", "not_sendable", 0]),
            "{driver}"
        );
        assert_eq!(get(&server, "/early"), json!(true));
        let endless = "select count(*) from pg_stat_activity where query like '%/* endless */%' and state <> 'idle' and pid <> pg_backend_pid()";
        wait_until("the copy has ended", || number(&postgres, endless) == 0);
    }
}
