//! Pools whose clients stay with one worker.

use std::{collections::BTreeSet, thread};

use forebay_testkit::{Process, Server, Setup, wait_until};

use crate::store::ask;

/// A server whose clients are told apart by a header field.
fn serve(sticky: &str, field: &str) -> Server {
    let server = Setup::new(&format!(
        "[pool.node]\nhandler = \"pid.mjs\"\nsticky = \"{sticky}\"\nworkers = {{ min = 1, max = 4 }}\n[[route]]\npath = \"/*\"\npool = \"node\"\n"
    ))
    .server("trusted_proxies = [\"127.0.0.1\"]")
    .file(
        "pid.mjs",
        "export default async (request) => {
            if (request.path === '/slow') await new Promise((resolve) => setTimeout(resolve, 20));
            return String(process.pid);
        };",
    )
    .start();
    // All of them run from the start.
    wait_until("every worker answers", || {
        of_clients(&server, field)
            .into_iter()
            .collect::<BTreeSet<_>>()
            .len()
            == 4
    });
    server
}

fn pid(server: &Server, target: &str, fields: &[(&str, &str)]) -> u32 {
    let answer = ask(&mut server.connect(), "GET", target, fields, b"");
    assert_eq!(
        (answer.status, answer.header("set-cookie")),
        (200, None),
        "{}",
        answer.text()
    );
    answer.text().parse().expect("a process")
}

/// The processes that answer 64 clients.
fn of_clients(server: &Server, field: &str) -> Vec<u32> {
    let value = |number: u32| match field {
        "cookie" => format!("forebay-client={number:016x}"),
        _ => format!("192.0.2.{number}"),
    };
    (0..64)
        .map(|number| pid(server, "/", &[(field, &value(number))]))
        .collect()
}

#[test]
fn a_client_is_known_by_its_cookie_and_moves_only_when_its_worker_ends() {
    let server = serve("cookie", "cookie");
    let first = ask(
        &mut server.connect(),
        "GET",
        "/",
        &[("cookie", "a=b; forebay-client=mine")],
        b"",
    );
    let set = first.header("set-cookie").expect("a cookie").to_owned();
    let (cookie, attributes) = set.split_once("; ").expect("attributes");
    assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Lax");
    assert!(!cookie.contains(first.text()), "{cookie} names the process");
    let known = format!("a=b; {cookie}");
    for _ in 0..20 {
        assert_eq!(pid(&server, "/", &[("cookie", &known)]).to_string(), first.text());
    }
    let secure = [("x-forwarded-proto", "https")];
    let first = ask(&mut server.connect(), "GET", "/", &secure, b"");
    assert!(
        first
            .header("set-cookie")
            .expect("a cookie")
            .ends_with("; SameSite=Lax; Secure")
    );

    let before = of_clients(&server, "cookie");
    let ended = before[0];
    Process::with_pid(ended).expect("it runs").kill();
    wait_until(
        "the clients of the worker that ended are those of its replacement",
        || {
            let after = of_clients(&server, "cookie");
            let mut replacements = BTreeSet::new();
            for (before, after) in before.iter().zip(&after) {
                if *before == ended {
                    replacements.insert(*after);
                } else {
                    assert_eq!(after, before, "a client of another worker moves");
                }
            }
            replacements.len() == 1 && !before.contains(replacements.first().expect("one"))
        },
    );
}

#[test]
fn requests_of_one_client_wait_for_its_worker_while_others_are_free() {
    for (sticky, field, other) in [
        ("x-session", ("x-session", "a"), "x-session"),
        ("address", ("x-forwarded-for", "192.0.2.7"), "x-forwarded-for"),
        // Without the field, the address counts.
        ("x-session", ("x-forwarded-for", "192.0.2.7"), "x-forwarded-for"),
    ] {
        let server = serve(sticky, other);
        let of_one = thread::scope(|scope| {
            let asking: Vec<_> = (0..6)
                .map(|_| scope.spawn(|| pid(&server, "/slow", &[field])))
                .collect();
            asking
                .into_iter()
                .map(|asking| asking.join().unwrap())
                .collect::<BTreeSet<_>>()
        });
        assert_eq!(of_one.len(), 1, "{sticky}");
    }
}
