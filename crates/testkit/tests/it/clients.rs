//! Clients that leave before they receive a response.

use forebay_testkit::{Load, wait_until};

use crate::support::{ONE_WORKER, Runtime, TOOLBOX, node, noted, open, wait_for_note, wait_until_ready};

#[test]
fn a_request_whose_client_has_left_the_queue_never_runs() {
    for runtime in Runtime::BOTH {
        let server = runtime.pool(TOOLBOX, ONE_WORKER).start();
        wait_until_ready(&server);
        let mut running = server.connect();
        running.request("GET", "/hold/gate/running");
        wait_for_note(&server, "begin running");
        let mut leaving: Vec<_> = (0..20)
            .map(|number| {
                let mut client = server.connect();
                assert_eq!(client.get("/here").status, 200);
                client.request("GET", &format!("/hold/gate/left{number}"));
                client
            })
            .collect();
        let mut staying = server.connect();
        staying.request("GET", "/hold/gate/stayed");
        // A request on the same connection that is answered at once would overtake nothing; so the server is asked otherwise
        // until it has read everything before.
        leaving.drain(..).for_each(drop);
        for _ in 0..50 {
            assert_eq!(server.get("/here").status, 200);
        }
        open(&server, "gate");
        assert_eq!(running.response().status, 200);
        assert_eq!(staying.response().status, 200);
        let begun: Vec<_> = noted(&server)
            .into_iter()
            .filter(|line| line.starts_with("begin"))
            .collect();
        assert_eq!(begun, ["begin running", "begin stayed"], "{runtime:?}");
    }
}

#[test]
fn a_handler_whose_client_leaves_sees_its_signal_and_its_slot_is_free_again() {
    for runtime in Runtime::BOTH {
        let server = runtime.pool(TOOLBOX, ONE_WORKER).start();
        let worker = server.get("/pid");
        let mut client = server.connect();
        client.request("GET", "/wait/never/left");
        wait_for_note(&server, "begin left");
        drop(client);
        wait_for_note(&server, "abort left");
        assert_eq!(server.get("/pid").text(), worker.text(), "{runtime:?}");
    }
}

#[test]
fn a_fetch_handler_sees_the_client_leave_too() {
    let source = r"
        import { appendFileSync } from 'node:fs';
        export default {
            async fetch(request) {
                appendFileSync('ran', `begin ${new URL(request.url).pathname}\n`);
                if (request.url.endsWith('/left')) {
                    await new Promise((resolve) => request.signal.addEventListener('abort', resolve));
                    appendFileSync('ran', 'aborted\n');
                }
                return new Response(`${request.method} ${await request.text()}`, { status: 201 });
            },
        };
    ";
    for runtime in Runtime::BOTH {
        let server = runtime.pool(source, ONE_WORKER).start();
        let answer = server.post("/", b"hello");
        assert_eq!((answer.status, answer.text()), (201, "POST hello"));
        let mut client = server.connect();
        client.request("GET", "/left");
        wait_for_note(&server, "begin /left");
        drop(client);
        wait_for_note(&server, "aborted");
        assert_eq!(server.get("/").status, 201, "{runtime:?}");
    }
}

#[test]
fn clients_that_leave_all_the_time_cost_nobody_an_answer() {
    let server = node(TOOLBOX, "workers = { min = 2, max = 2 }").start();
    wait_until_ready(&server);
    let load = Load::on(&server, "/echo").connections(8);
    let running = load.start();
    for round in 0..300 {
        let mut client = server.connect();
        if round % 3 == 0 {
            client.send("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nhalf of");
        } else {
            client.post("/turn", b"nobody waits for this");
        }
        if round % 2 == 0 {
            client.finish_sending();
        }
    }
    load.end();
    running
        .join()
        .expect("the load does not panic")
        .assert_each_answered(&[200]);
    wait_until("every connection to be forgotten", || {
        server.process().open_sockets() <= 12
    });
}
