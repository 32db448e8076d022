//! Applications that start late, twice or not at all.

use serde_json::json;

use super::application;
use crate::support::Runtime;

#[test]
fn an_application_may_listen_after_it_has_been_loaded() {
    let source = "import { createServer } from 'node:http';
        async function main() {
            await new Promise((resolve) => setTimeout(resolve, 50));
            createServer((req, res) => res.end('late')).listen(process.env.PORT ?? 3000);
        }
        main();";
    for runtime in Runtime::BOTH {
        let server = application(runtime, "app.mjs", source).start();
        assert_eq!(server.get("/").text(), "late", "{runtime:?}");
    }
}

#[test]
fn an_application_that_cannot_be_served_is_told_what_to_do() {
    let cases = [
        (
            "import { createServer } from 'node:http';
             createServer((req, res) => res.end('one')).listen(3000);
             createServer((req, res) => res.end('two')).listen(3001);",
            "listens twice, at 3000 and at 3001, and Forebay serves one application per pool: move the second one to a file of its own",
        ),
        (
            "console.error('no DATABASE_URL');\nprocess.exit(3);\nexport default {};",
            "the application has called process.exit() while it was loaded",
        ),
        (
            "throw new Error('no database');\nexport default {};",
            "no database",
        ),
        ("import './other.mjs';", "exports no handler and does not listen"),
        (
            "export default { port: 3000 };",
            "exports no handler and does not listen",
        ),
    ];
    for runtime in Runtime::BOTH {
        for (source, reason) in cases {
            // Bun does not tell whether something is under way that could listen.
            if runtime == Runtime::Bun && source.starts_with("import './other") {
                continue;
            }
            let server = application(runtime, "app.mjs", source)
                .file("other.mjs", "export const other = 1;")
                .admin()
                .start();
            server.wait_for_log(&["ERROR", "worker did not start"]);
            server.wait_for_log(&[reason]);
            let status = server.command(&["status"]);
            let status = String::from_utf8_lossy(&status.stdout).into_owned();
            assert!(status.contains(reason), "{runtime:?}: {reason}\n{status}");
        }
    }
}

#[test]
fn servers_on_one_port_are_one_application() {
    let source = "import { createServer } from 'node:http';
        const listener = (req, res) => res.end('both');
        createServer(listener).listen(3000, '127.0.0.1');
        createServer(listener).listen(3000, '::1');";
    for runtime in Runtime::BOTH {
        let server = application(runtime, "app.mjs", source).start();
        assert_eq!(server.get("/").text(), "both", "{runtime:?}");
    }
}

#[test]
fn a_server_tells_where_it_listens_and_can_be_closed() {
    let source = "import { createServer } from 'node:http';
        const events = [];
        const server = createServer((req, res) => {
            if (req.url === '/events') return res.end(JSON.stringify(events));
            server.close(() => events.push('closed'));
            res.end(String(server.listening));
        });
        server.on('listening', () => events.push('listening', server.address(), server.listening));
        server.listen({ port: 8000, host: '127.0.0.1' }, () => events.push('called'));
        try { server.listen(8001); } catch (error) { events.push(error.code); }";
    for runtime in Runtime::BOTH {
        let server = application(runtime, "app.mjs", source).start();
        assert_eq!(
            server.get("/events").json(),
            json!(["ERR_SERVER_ALREADY_LISTEN", "listening", {"address": "127.0.0.1", "family": "IPv4", "port": 8000}, true, "called"]),
            "{runtime:?}"
        );
        assert_eq!(server.get("/close").text(), "false");
        let closed = server.get("/");
        assert_eq!(
            (closed.status, closed.detail()),
            (503, "the application has closed its server".to_owned())
        );
    }
}

#[test]
fn an_application_runs_many_requests_at_a_time_and_a_handler_one() {
    let together = "let open = 0; let most = 0; const waiting = [];
        async function work(count) {
            most = Math.max(most, ++open);
            if (open === count) for (const wake of waiting.splice(0)) wake();
            else await new Promise((resolve) => waiting.push(resolve));
            return String(most);
        }";
    let node = format!("{together}\nexport default async (req, res) => res.end(await work(3));");
    let fetch = format!("{together}\nexport default {{ fetch: async () => new Response(await work(3)) }};");
    let handler = format!(
        "{together}\nexport default async (request) => {{ const most = await work(1); open--; return most; }};"
    );
    for runtime in Runtime::BOTH {
        for (source, most) in [(&node, "3"), (&fetch, "3"), (&handler, "1")] {
            let server = application(runtime, "app.mjs", source).start();
            let mut clients = [server.connect(), server.connect(), server.connect()];
            for client in &mut clients {
                client.request("GET", "/");
            }
            for client in &mut clients {
                assert_eq!(client.response().text(), most, "{runtime:?}: {source}");
            }
        }
    }
}

#[test]
fn what_an_application_does_at_sigterm_is_done_before_its_worker_ends() {
    let source = "import { createServer } from 'node:http';
        import { writeFileSync } from 'node:fs';
        const server = createServer((req, res) => res.end('x')).listen(3000);
        process.on('SIGTERM', () => {
            server.close(() => {
                writeFileSync('closed', 'server');
                process.exit(0);
            });
        });";
    for runtime in Runtime::BOTH {
        let mut server = application(runtime, "app.mjs", source).start();
        assert_eq!(server.get("/").text(), "x");
        server.terminate();
        server.wait();
        assert_eq!(
            server.folder().read("closed").as_deref(),
            Some("server"),
            "{runtime:?}"
        );
    }
}

/// The first example of Node's documentation of `cluster`.
const CLUSTER: &str = "import cluster from 'node:cluster';
import http from 'node:http';
import { availableParallelism } from 'node:os';
import process from 'node:process';

const numCPUs = availableParallelism();

if (cluster.isPrimary) {
  console.log(`Primary ${process.pid} is running`);

  // Fork workers.
  for (let i = 0; i < numCPUs; i++) {
    cluster.fork();
  }

  cluster.on('exit', (worker, code, signal) => {
    console.log(`worker ${worker.process.pid} died`);
  });
} else {
  // Workers can share any TCP connection
  // In this case it is an HTTP server
  http.createServer((req, res) => {
    res.writeHead(200);
    res.end('hello world\\n');
  }).listen(8000);

  console.log(`Worker ${process.pid} started`);
}
";

#[test]
fn an_application_that_would_fork_a_cluster_is_a_worker_of_it() {
    for runtime in Runtime::BOTH {
        let server = application(runtime, "app.mjs", CLUSTER).start();
        assert_eq!(server.get("/").text(), "hello world\n", "{runtime:?}");
        let pid = server.wait_for_workers(1)[0].pid;
        server.wait_for_log(&[&format!("Worker {pid} started")]);
    }
}
