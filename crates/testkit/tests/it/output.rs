//! Standard output and log messages of workers.

use forebay_testkit::{Load, Server, wait_until};
use serde_json::Value;

use crate::support::{ONE_WORKER, Runtime};

#[test]
fn garbage_on_standard_output_is_logged_and_harms_nothing() {
    let source = r"
        import { writeSync } from 'node:fs';
        const garbage = Buffer.from([0, 1, 2, 0xff, 0xfe, 10, 0x46, 0x42, 0, 0, 0, 0x20, 13, 10]);
        console.log('printed while loading');
        export default async (request) => {
            const body = await request.bytes();
            writeSync(1, garbage);
            writeSync(1, 'HTTP/1.1 200 OK\r\n\r\n');
            writeSync(2, garbage);
            console.log('printed by', request.id);
            console.error(`complained ${body.length}`);
            return body;
        };
    ";
    for runtime in Runtime::BOTH {
        let server = runtime.pool(source, ONE_WORKER).start();
        let mut client = server.connect();
        client.send("POST / HTTP/1.1\r\nhost: a\r\nx-request-id: the-one\r\ncontent-length: 2\r\n\r\nhi");
        assert_eq!(client.response().text(), "hi");
        server.wait_for_log(&["printed while loading", "\"pool\":\"api\"", "\"worker\":1"]);
        server.wait_for_log(&["printed by the-one", "INFO"]);
        server.wait_for_log(&["complained 2", "WARN"]);
        server.wait_for_log(&["HTTP/1.1 200 OK"]);
        let report = Load::on(&server, "/").connections(8).requests(400).run();
        report.assert_each_answered(&[200]);
        for line in server.log().lines() {
            assert!(
                serde_json::from_str::<serde_json::Value>(line).is_ok(),
                "{runtime:?}: not JSON: {line:?}"
            );
        }
    }
}

#[test]
fn a_very_long_line_without_an_end_is_logged_in_parts() {
    let source = r"
        import { writeSync } from 'node:fs';
        export default () => {
            for (let count = 0; count < 20; count++) process.stdout.write('y'.repeat(10_000));
            process.stdout.write('the end\n');
            return 'printed';
        };
    ";
    for runtime in Runtime::BOTH {
        let server = runtime.pool(source, ONE_WORKER).start();
        assert_eq!(server.get("/").text(), "printed");
        server.wait_for_log(&["the end"]);
        let longest = server.log().lines().map(str::len).max();
        assert!(
            longest.is_some_and(|bytes| bytes < 10_000),
            "{runtime:?}: {longest:?}"
        );
    }
}

#[test]
fn a_handlers_log_names_its_request_and_its_fields() {
    let source = r"
        export default (request, ctx) => {
            ctx.log.warn('low on water', { level: 3 });
            ctx.log.error('out of water');
            return null;
        };
    ";
    for runtime in Runtime::BOTH {
        let server = runtime.pool(source, ONE_WORKER).start();
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nhost: a\r\nx-request-id: dry\r\n\r\n");
        assert_eq!(client.response().status, 204);
        let line = server.wait_for_log(&["low on water", "WARN", "dry"]);
        assert!(line.contains("level") && line.contains('3'), "{line}");
        server.wait_for_log(&["out of water", "\"level\":\"ERROR\"", "dry"]);
    }
}

/// The records of the log that contain a text.
fn records(server: &Server, text: &str) -> Vec<Value> {
    let lines = server.log();
    let records = lines
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    records
        .filter(|record| record.to_string().contains(text))
        .collect()
}

#[test]
fn a_stack_trace_is_one_record() {
    let javascript = "export default () => { console.error(new Error('below, broken'));\n console.error('printed after it'); return 'x'; };";
    let python = r"
import sys, traceback
from forebay import App
app = App()
@app.get('/')
def answer(request):
    try:
        try:
            raise ValueError('below')
        except ValueError as error:
            raise KeyError('broken') from error
    except KeyError:
        traceback.print_exc()
    print('printed after it', file=sys.stderr, flush=True)
    return 'x'
";
    for (setup, name) in [
        (Runtime::Node.pool(javascript, ONE_WORKER), "Node"),
        (Runtime::Bun.pool(javascript, ONE_WORKER), "Bun"),
        (crate::python::pool(python, ONE_WORKER), "Python"),
    ] {
        let server = setup.start();
        assert_eq!(server.get("/").status, 200, "{name}");
        server.wait_for_log(&["printed after it"]);
        let found = records(&server, "below");
        let text = found[0]["message"].as_str().expect("a message");
        assert!(
            found.len() == 1 && text.contains("broken") && !text.contains("after"),
            "{name}: {found:#?}"
        );
    }
}

#[test]
fn what_one_of_several_requests_prints_never_carries_the_id_of_another() {
    let source = "export default async (request) => { console.log(`printed by ${request.id}`); await new Promise((resolve) => setTimeout(resolve, Number(request.query.get('ms')))); console.log(`printed late by ${request.id}`); return 'x'; };";
    for runtime in Runtime::BOTH {
        let server = runtime
            .pool(source, "workers = { min = 1, max = 1 }\nconcurrency = 8")
            .start();
        let mut clients: Vec<_> = (0..24).map(|_| server.connect()).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            let ms = number % 5 * 3;
            client.send(format!(
                "GET /?ms={ms} HTTP/1.1\r\nhost: a\r\nx-request-id: id-{number}-\r\n\r\n"
            ));
        }
        for client in &mut clients {
            assert_eq!(client.response().status, 200);
        }
        wait_until("all lines", || records(&server, "printed ").len() == 48);
        for record in records(&server, "printed ") {
            let text = record["message"].as_str().expect("a message");
            let id = record["request"].as_str();
            assert!(id.is_none_or(|id| text.ends_with(id)), "{runtime:?}: {record}");
        }
    }
}

#[test]
fn an_import_error_is_told_once_with_what_is_missing() {
    for (setup, name) in [
        (
            Runtime::Node.pool("import './nowhere.mjs'; export default () => 'x';", ONE_WORKER),
            "Node",
        ),
        (
            Runtime::Bun.pool("import './nowhere.mjs'; export default () => 'x';", ONE_WORKER),
            "Bun",
        ),
        (crate::python::pool("import nowhere\n", ONE_WORKER), "Python"),
    ] {
        let server = setup.start();
        server.wait_for_log(&["nowhere"]);
        let of_first: Vec<_> = records(&server, "nowhere")
            .into_iter()
            .filter(|record| record["worker"] == 1)
            .collect();
        let [record] = &of_first[..] else {
            panic!("{name}: {of_first:#?}")
        };
        assert_eq!(record["message"], "worker did not start", "{name}");
        assert!(
            record["cause"]
                .as_str()
                .is_some_and(|cause| cause.contains("nowhere")),
            "{name}: {record}"
        );
        assert!(!server.log().contains("SIGKILL"), "{name}");
    }
}
