//! Standard output and log messages of workers.

use forebay_testkit::Load;

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
