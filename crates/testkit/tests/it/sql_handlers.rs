//! Database access of handlers beyond single statements: transactions and cursors, with both drivers.

use std::thread;

use forebay_testkit::{Postgres, Server, Setup, wait_until};
use serde_json::{Value, json};

pub(crate) const DRIVERS: [&str; 2] = ["async", "blocking"];

/// A server whose script responds to a path with the function of that name.
pub(crate) fn server(postgres: &Postgres, driver: &str, answers: &str, limits: &str) -> Server {
    let keys = configuration(postgres, driver, limits);
    Setup::new(&keys).file("s.mjs", module(answers)).admin().start()
}

/// The configuration of such a server; its script is `s.mjs`.
pub(crate) fn configuration(postgres: &Postgres, driver: &str, limits: &str) -> String {
    format!(
        "[sql.main]\nurl = \"{url}\"\nacquire_timeout = \"30s\"\ndriver = \"{driver}\"\n\
         [script.s]\nhandler = \"s.mjs\"\nallow = {{ sql = [\"main\"] }}\n{limits}\n[[route]]\npath = \"/*\"\nscript = \"s\"\n",
        url = postgres.url()
    )
}

/// As [`server`], with a Node worker instead of the script.
pub(crate) fn pool(postgres: &Postgres, answers: &str) -> Server {
    let keys = format!(
        "[sql.main]\nurl = \"{url}\"\nacquire_timeout = \"30s\"\n\
         [pool.p]\nhandler = \"s.mjs\"\nsql = [\"main\"]\nworkers = {{ min = 1, max = 1 }}\nconcurrency = 64\n[[route]]\npath = \"/*\"\npool = \"p\"\n",
        url = postgres.url()
    );
    Setup::new(&keys).file("s.mjs", module(answers)).start()
}

/// A handler with these functions, by path.
pub(crate) fn module(answers: &str) -> String {
    format!(
        "import {{ sql, SqlError }} from 'forebay/sql';\nimport {{ reply, sleep }} from 'forebay';\nconst {{ main }} = sql;\n\
         const said = ({{ name, code, message, position }}) => ({{ name, code, message, position }});\n\
         const failing = (run) => run().then((value) => ({{ value }}), said);\n\
         const answers = {{{answers}}};\n\
         export default (request) => answers[request.path.slice(1)](request);\n"
    )
}

pub(crate) fn get(server: &Server, path: &str) -> Value {
    let answer = server.get(path);
    assert_eq!(answer.status, 200, "{path}: {}\n{}", answer.text(), server.log());
    answer.json()
}

pub(crate) fn make(postgres: &Postgres, statements: &str) {
    postgres.admin().batch_execute(statements).expect("it is made");
}

pub(crate) fn number(postgres: &Postgres, query: &str) -> i64 {
    let row = postgres.admin().query_one(query, &[]).expect("a row");
    row.get(0)
}

const TRANSACTIONS: &str = r"
  async kept() {
    const result = await main.tx(async (t) => {
      await t`insert into tx_marks values (${1}, ${'a'})`;
      await t.pipeline([['insert into tx_marks values ($1, $2)', [2, 'b']], ['insert into tx_marks values ($1, $2)', [3, 'c']]]);
      return [await t.value('select count(*) from tx_marks'), await main.value('select count(*) from tx_marks'), await t.row('select note from tx_marks where id = $1', [2])];
    });
    return [result, await main.value('select count(*) from tx_marks')];
  },
  async undone() {
    const error = await failing(() => main.tx(async (t) => {
      await t`insert into tx_marks values (${4}, ${'d'})`;
      throw new TypeError('enough');
    }));
    const wrong = await failing(() => main.tx(async (t) => {
      await t`insert into tx_marks values (${4}, ${'d'})`;
      await t`insert into tx_marks values (${1}, ${'again'})`;
    }));
    const swallowed = await failing(() => main.tx(async (t) => {
      await t`insert into tx_marks values (${4}, ${'d'})`;
      await t.query('select 1/0').catch(() => {});
    }));
    return [error, wrong.code, swallowed.code, await main.value('select count(*) from tx_marks')];
  },
  async nested() {
    const result = await main.tx(async (t) => {
      await t`insert into tx_marks values (${10}, ${'x'})`;
      const inner = await failing(() => t.tx(async (u) => {
        await u`insert into tx_marks values (${11}, ${'y'})`;
        const outside = await failing(() => t.query('select 1'));
        await u.tx((v) => v`insert into tx_marks values (${12}, ${'z'})`);
        await u`insert into tx_marks values (${10}, ${outside.message})`;
      }));
      const kept = await t.tx(async (u) => u.value('insert into tx_marks values (13, $1) returning id', ['kept']));
      const outside = await failing(() => t.tx(async () => { await t.query('select 1'); }));
      return [inner.code, kept, outside.message];
    });
    return [result, await main.value(`select string_agg(id::text, ' ' order by id) from tx_marks where id >= 10`)];
  },
  async forgotten() {
    let later;
    await main.tx(async (t) => {
      later = t;
      t.query('insert into tx_marks select 20, pg_sleep(0.05)::text');
      t.tx(async (u) => { await sleep(20); await u.query('insert into tx_marks values (21)'); });
    });
    return [await main.value('select count(*) from tx_marks where id in (20, 21)'), await failing(() => later.query('select 1')), (await failing(() => later.tx(() => 1))).message];
  },
  async options() {
    const shown = (t) => t.row(`select current_setting('transaction_isolation') as isolation, current_setting('transaction_read_only') as reads`);
    return [
      await main.tx(shown),
      await main.tx(shown, { isolation: 'serializable', readOnly: true }),
      (await failing(() => main.tx((t) => t`insert into tx_marks values (${30})`, { readOnly: true }))).code,
      (await failing(() => main.tx(shown, { isolation: 'chaos' }))).message,
      (await failing(() => main.tx(shown, { retries: -1 }))).message,
      (await failing(() => main.tx('select 1'))).message,
      (await failing(() => main.tx((t) => t.query('commit')))).code,
      (await failing(() => main.tx(async (t) => { await t.query('lock table tx_marks in access exclusive mode'); return t.value('select 1'); }))).value,
    ];
  },
";

#[test]
fn a_transaction_takes_effect_when_its_function_has_returned_and_not_at_all_when_it_throws() {
    let postgres = Postgres::start();
    for driver in DRIVERS {
        make(
            &postgres,
            "drop table if exists tx_marks; create table tx_marks (id int primary key, note text); grant all on tx_marks to public",
        );
        let server = server(&postgres, driver, TRANSACTIONS, "");
        assert_eq!(
            get(&server, "/kept"),
            json!([[3, 0, {"note": "b"}], 3]),
            "{driver}"
        );
        assert_eq!(
            get(&server, "/undone"),
            json!([{"name": "TypeError", "message": "enough"}, "23505", "rolled_back", 3]),
            "{driver}"
        );
        let within = "a transaction within this one has not ended: use the argument of its function";
        assert_eq!(
            get(&server, "/nested"),
            json!([["23505", 13, within], "10 13"]),
            "{driver}"
        );
        let ended = "the transaction has ended";
        assert_eq!(
            get(&server, "/forgotten"),
            json!([2, {"name": "TypeError", "message": ended}, ended]),
            "{driver}"
        );
        assert_eq!(
            get(&server, "/options"),
            json!([
                {"isolation": "read committed", "reads": "off"},
                {"isolation": "serializable", "reads": "on"},
                "25006",
                "the isolation of a transaction is one of read committed, repeatable read, serializable, not chaos",
                "the retries of a transaction are 0 to 100, not -1",
                "a transaction takes a function, not a string",
                "session",
                1,
            ]),
            "{driver}"
        );
    }
}

#[test]
fn transactions_that_collide_are_run_again_until_each_has_taken_effect() {
    let postgres = Postgres::start();
    for driver in DRIVERS {
        make(
            &postgres,
            "drop table if exists tx_counts; create table tx_counts (id int primary key, n int); insert into tx_counts values (1, 0), (2, 0); grant all on tx_counts to public",
        );
        let answers = r"
  // Reads, and writes what follows from that.
  async add() {
    let runs = 0;
    await main.tx(async (t) => {
      runs++;
      const n = await t.value('select n from tx_counts where id = 1');
      await t`update tx_counts set n = ${n + 1} where id = 1`;
    }, { isolation: 'serializable', retries: 100 });
    return runs;
  },
  // Locks two rows in either order.
  async swap(request) {
    const rows = request.query.get('from') === '1' ? [1, 2] : [2, 1];
    let runs = 0;
    await main.tx(async (t) => {
      runs++;
      for (const row of rows) {
        await t`update tx_counts set n = n + 1 where id = ${row}`;
        await sleep(5);
      }
    }, { retries: 100 });
    return runs;
  },
  async once() {
    return failing(() => main.tx(async (t) => {
      const n = await t.value('select n from tx_counts where id = 1');
      await main`update tx_counts set n = ${n} where id = 1`;
      await t`update tx_counts set n = ${n} where id = 1`;
    }, { isolation: 'repeatable read', retries: 0 }));
  },
";
        let server = server(&postgres, driver, answers, "time_max = \"1m\"");
        // Otherwise a deadlock is found only after a second.
        make(
            &postgres,
            "alter role benchmarkdbuser set deadlock_timeout = '10ms'",
        );
        let runs: i64 = thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|client| {
                    let server = &server;
                    scope.spawn(move || {
                        let mut runs = 0;
                        for _ in 0..10 {
                            runs += get(server, "/add").as_i64().expect("a number");
                            runs += get(server, &format!("/swap?from={}", client % 2))
                                .as_i64()
                                .expect("a number");
                        }
                        runs
                    })
                })
                .collect();
            clients
                .into_iter()
                .map(|client| client.join().expect("each is answered"))
                .sum()
        });
        assert_eq!(
            number(&postgres, "select n::int8 from tx_counts where id = 1"),
            80
        );
        assert_eq!(
            number(&postgres, "select n::int8 from tx_counts where id = 2"),
            40
        );
        assert!(runs > 80, "some collided: {runs}");
        assert_eq!(get(&server, "/once")["code"], "40001");
    }
}

#[test]
fn a_client_that_goes_in_the_middle_of_a_transaction_leaves_nothing_behind() {
    let postgres = Postgres::start();
    let answers = r"
  async long() {
    await main.tx(async (t) => {
      await t.query('lock table world in access exclusive mode');
      await t.query('select pg_sleep(1000) /* left */');
    });
  },
  async idle() {
    await main.tx(async (t) => {
      await t.query('select 1 /* left */');
      await sleep(1_000_000);
    });
  },
  async unanswered() {
    void main.tx(async (t) => { await t.query('select pg_sleep(1000) /* left */'); });
    await sleep(100);
    return 1;
  },
";
    for driver in DRIVERS {
        let server = server(&postgres, driver, answers, "");
        let left = "select count(*) from pg_stat_activity where query like '%/* left */%' and pid <> pg_backend_pid() \
                    and (state like 'idle in transaction%' or state = 'active')";
        for path in ["/long", "/idle"] {
            let mut client = server.connect();
            client.request("GET", path);
            wait_until("the transaction is open", || number(&postgres, left) == 1);
            drop(client);
            wait_until("it is gone", || number(&postgres, left) == 0);
        }
        assert_eq!(get(&server, "/unanswered"), json!(1));
        wait_until("it is gone", || number(&postgres, left) == 0);
    }
}

#[test]
fn what_stands_around_a_transaction_is_run_when_its_client_goes() {
    let postgres = Postgres::start();
    let answers = r"
  async held({ query }) {
    const mark = query.get('mark');
    const note = (what) => globalThis.noted.push(`${mark} ${what}`);
    try {
      await main.tx(async (t) => {
        try {
          await t.tx(async (u) => {
            await u.query('select 1 /* held */');
            if (mark === 'statement') await u.query('select pg_sleep(1000) /* held */');
            if (mark === 'cursor') for await (const _ of u.cursor('select pg_sleep(1) /* held */ from generate_series(1, 1000)', [], { batch: 1 }));
            await sleep(1_000_000);
          });
        } finally {
          note('inner');
        }
      });
    } catch (error) {
      note(error.name);
    } finally {
      note('outer');
    }
  },
  noted: () => (globalThis.noted ??= []),
";
    for driver in DRIVERS {
        let server = server(&postgres, driver, answers, "executors = 1\non = \"executor\"");
        assert_eq!(get(&server, "/noted"), json!([]));
        let held = "select count(*) from pg_stat_activity where (query like '%/* held */%' or query like 'fetch 1 from %') \
                    and pid <> pg_backend_pid() and (state like 'idle in transaction%' or state = 'active')";
        let mut expected = Vec::new();
        for mark in ["statement", "cursor", "sleep"] {
            let mut client = server.connect();
            client.request("GET", &format!("/held?mark={mark}"));
            wait_until("the transaction is open", || number(&postgres, held) == 1);
            drop(client);
            wait_until("it is gone", || number(&postgres, held) == 0);
            expected.extend(["inner", "AbortError", "outer"].map(|what| format!("{mark} {what}")));
            wait_until("the handler has come to its end", || {
                get(&server, "/noted") == json!(expected)
            });
        }
    }
}

const CURSORS: &str = r"
  async *all(request) {
    let sum = 0, count = 0;
    for await (const { i, text } of main.cursor('select i, repeat($2, 1000) as text from generate_series(1, $1::int) as i', [request.query.get('count'), 'x'], { batch: 200 })) {
      if (text.length !== 1000) throw new Error('another text');
      sum += i;
      if (++count % 10_000 === 0) yield `${count}\n`;
    }
    yield `${sum}\n`;
  },
  async early() {
    const seen = [];
    for await (const { i } of main.cursor('select generate_series(1, 1000000000) as i /* endless */')) {
      seen.push(i);
      if (i === 300) break;
    }
    return seen.length;
  },
  async within() {
    return main.tx(async (t) => {
      const seen = [];
      for await (const { i } of t.cursor('select i from generate_series(1, 7) as i', [], { batch: 3 })) seen.push(await t.value('select $1::int * 2', [i]));
      for await (const { i } of t.cursor('select i from generate_series(1, 7) as i', [], { batch: 3 })) if (i === 4) break;
      return seen;
    });
  },
  async wrong() {
    const rows = async (cursor) => { const seen = []; for await (const row of cursor) seen.push(row); return seen; };
    const cursors = [main.cursor('selec'), main.cursor('select 1', [], { batch: 0 }), main.cursor('select 1/(i-2) as x from generate_series(1,3) as i'), main.cursor('select 1 from nowhere')];
    const errors = [];
    for (const cursor of cursors) errors.push((await failing(() => rows(cursor))).code);
    return errors;
  },
  async empty() {
    const seen = [];
    for await (const row of main.cursor('select 1 where false')) seen.push(row);
    return seen;
  },
";

#[test]
fn a_cursor_over_a_hundred_megabytes_needs_the_memory_of_a_few_rows() {
    let postgres = Postgres::shared();
    for driver in DRIVERS {
        let server = server(postgres, driver, CURSORS, "memory_max = \"16MiB\"");
        let before = server.get("/all?count=10000");
        assert_eq!(before.text(), "10000\n50005000\n");
        let rss = server.process().rss_bytes();
        let all = server.get("/all?count=100000");
        assert!(
            all.text().ends_with("\n100000\n5000050000\n"),
            "{driver}: {}\n{}",
            all.text(),
            server.log()
        );
        let grown = server.process().rss_bytes().saturating_sub(rss);
        assert!(grown < 32 << 20, "{driver}: {grown} bytes for a result of 100 MB");
    }
}

#[test]
fn a_cursor_that_is_left_ends_on_the_server_and_others_go_on_in_a_transaction() {
    let postgres = Postgres::shared();
    for driver in DRIVERS {
        let server = server(postgres, driver, CURSORS, "");
        assert_eq!(get(&server, "/early"), json!(300), "{driver}");
        let endless = "select count(*) from pg_stat_activity where query like '%/* endless */%' and state <> 'idle' and pid <> pg_backend_pid()";
        wait_until("the statement has ended", || number(postgres, endless) == 0);
        assert_eq!(
            get(&server, "/within"),
            json!([2, 4, 6, 8, 10, 12, 14]),
            "{driver}"
        );
        assert_eq!(get(&server, "/empty"), json!([]), "{driver}");
        assert_eq!(
            get(&server, "/wrong"),
            json!(["42601", "malformed", "22012", "42P01"]),
            "{driver}"
        );
    }
}
