//! The configurations and programs of docs/guide/sql.md: each is run as it stands there.

use std::thread;

use forebay_testkit::{Postgres, Server, Setup, blocks, wait_until};
use serde_json::{Value, json};

use crate::sql_handlers::{get, make, number};

const GUIDE: &str = include_str!("../../../../docs/guide/sql.md");

/// The data that the programs of the guide assume.
const DATA: &str = "
create table users (id serial primary key, name text, tags text[]);
insert into users (name) values ('Ada'), ('Grace');
create table orders (id int primary key, user_id int, price int);
insert into orders values (1, 1, 10), (2, 1, 20), (3, 2, 5);
create table tags (id int, name text);
insert into tags values (1, 'new');
create table accounts (id int primary key, balance int);
insert into accounts values (1, 100), (2, 0);
grant all on users, orders, tags, accounts, users_id_seq to public";

/// The surrounding code that JavaScript fragments of a module assume.
const AROUND: &str = "
import { reply, router } from 'forebay';
import { sql } from 'forebay/sql';
const { main } = sql;
const app = router();
const [amount, from, to] = [5, 1, 2];
const pieces = ['8,Eve\\n9,', 'Mallory\\n'];
";

fn postgres() -> Postgres {
    let postgres = Postgres::start();
    make(&postgres, DATA);
    postgres
}

/// The blocks in a language, of which there must be `count`.
fn of_guide(language: &str, count: usize) -> Vec<&'static str> {
    let found: Vec<_> = blocks(GUIDE, language).into_iter().collect();
    assert_eq!(found.len(), count, "each block in {language} has a test here");
    found
}

/// A module made of a block: a complete one, a list of routes, or the body of a handler.
fn module(block: &str) -> String {
    if block.contains("export default") && block.contains("import ") {
        block.to_owned()
    } else if block.contains("export default") {
        format!("{AROUND}{block}")
    } else if block.contains("app.get(") {
        format!("{AROUND}{block}\nexport default app;\n")
    } else {
        format!("{AROUND}export default async () => {{\n{block}\nreturn {{ it: 'done' }};\n}};\n")
    }
}

fn served(postgres: &Postgres, section: &str, file: (&str, &str)) -> Server {
    let target = if section.starts_with("[script.") {
        "script"
    } else {
        "pool"
    };
    let url = postgres.url();
    Setup::new(&format!(
        "[sql.main]\nurl = \"{url}\"\nacquire_timeout = \"30s\"\n[sql.own]\nurl = \"{url}\"\ndirect = true\n{section}\n[[route]]\npath = \"/*\"\n{target} = \"api\"\n"
    ))
    .file(file.0, file.1)
    .start()
}

/// Sends a request that ends when a channel has received a notification.
fn get_when_told(postgres: &Postgres, server: &Server, path: &str, told: &str) -> Value {
    thread::scope(|scope| {
        let asking = scope.spawn(|| get(server, path));
        wait_until("an answer", || {
            make(postgres, &format!("notify orders, '{told}'"));
            asking.is_finished()
        });
        asking.join().expect("it is answered")
    })
}

/// Reads events until the notification has arrived.
fn hear(postgres: &Postgres, server: &Server) {
    let mut client = server.connect();
    client.request("GET", "/orders/events");
    assert_eq!(
        client.head().expect("the head of an answer").status,
        200,
        "{}",
        server.log()
    );
    make(postgres, "notify orders, 'the first'");
    let mut seen = String::new();
    while !seen.contains("data: the first\n\n") {
        let some = client.some_bytes();
        assert!(!some.is_empty(), "it ended after {seen:?}");
        seen.push_str(&String::from_utf8_lossy(&some));
    }
}

#[test]
fn the_routes_of_the_guide_answer_as_it_says() {
    let postgres = postgres();
    let sections = of_guide("toml", 4);
    let server = Setup::new(&format!("{}\n{}", sections[0], sections[1]))
        .env("DATABASE_URL", &postgres.url())
        .start();
    assert_eq!(get(&server, "/users/2"), json!({"id": 2, "name": "Grace"}));
    assert_eq!(
        get(&server, "/users?like=A%25"),
        json!([{"id": 1, "name": "Ada"}])
    );
    let post = |path: &str, body: &str| {
        let fields = "content-type: application/json\r\n";
        server.connect().ask("POST", path, fields, body).json()
    };
    assert_eq!(
        post("/users", r#"{"name": "Edith", "tags": ["a", "b"]}"#),
        json!({"id": 3})
    );
    assert_eq!(
        post("/transfers", r#"{"from": 1, "to": 2, "amount": 40}"#),
        json!(60)
    );
}

#[test]
fn the_handlers_of_the_guide_run_as_scripts_and_in_pools() {
    let sections = of_guide("toml", 4);
    let programs = of_guide("js", 7);
    for section in &sections[2..] {
        let postgres = postgres();
        let server = |program: &str| served(&postgres, section, ("api.mjs", &module(program)));
        let user = get(&server(programs[0]), "/?id=1");
        assert_eq!(
            (&user["user"], &user["total"]),
            (&json!({"id": 1, "name": "Ada"}), &json!(30))
        );
        assert_eq!(user["orders"].as_array().map(Vec::len), Some(2));
        assert_eq!(user["tags"], json!([{"id": 1, "name": "new"}]));
        assert_eq!(get(&server(programs[1]), "/"), json!({"it": "done"}));
        assert_eq!(
            number(&postgres, "select balance::int8 from accounts where id = 2"),
            5
        );
        assert_eq!(server(programs[2]).get("/").text(), "Ada\nGrace\n");
        let copied = server(programs[3]).get("/");
        assert!(
            copied.text().starts_with("id,name,tags\n1,Ada,\n"),
            "{}",
            copied.text()
        );
        assert!(copied.text().contains("9,Mallory"), "{}", copied.text());
        hear(&postgres, &server(programs[4]));
        let listening = server(programs[5]);
        assert_eq!(
            get_when_told(&postgres, &listening, "/", "closed"),
            json!({"it": "done"})
        );
    }
    // Connections that a handler makes itself, which only Bun can do without a package.
    let postgres = postgres();
    let direct = format!(
        "{}\nexport default async () => (await db`select 7 as it`)[0];\n",
        programs[6]
    );
    let section = "[pool.api]\nhandler = \"api.mjs\"\nruntime = \"bun\"\nsql = [\"own\"]\n";
    assert_eq!(
        get(&served(&postgres, section, ("api.mjs", &direct)), "/"),
        json!({"it": 7})
    );
}

#[test]
fn the_handlers_in_python_of_the_guide_run() {
    let postgres = postgres();
    // The second block continues the application of the first.
    let program = of_guide("python", 2).join("\n");
    let section = "[pool.api]\nhandler = \"app.py\"\nsql = [\"main\"]\nconcurrency = 4\n";
    let server = served(&postgres, section, ("app.py", &program));
    assert_eq!(get(&server, "/users/2"), json!({"id": 2, "name": "Grace"}));
    assert_eq!(
        get(&server, "/orders/1"),
        json!({"total": 30, "tags": [{"id": 1, "name": "new"}]})
    );
    assert_eq!(server.post("/transfers", b"").json(), json!({"balance": 10}));
    assert_eq!(
        server.post("/users.csv", b"8,Eve\n9,Mallory\n").json(),
        json!({"count": 2})
    );
    assert_eq!(server.get("/users.txt").text(), "Ada\nGrace\nEve\nMallory\n");
    assert!(
        server
            .get("/users.csv")
            .text()
            .starts_with("id,name,tags\n1,Ada,\n")
    );
    hear(&postgres, &server);
}
