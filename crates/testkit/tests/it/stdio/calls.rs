//! Calls of controllers into the server.

use forebay_testkit::wait_until;

use super::Dialect;
use crate::support::metric;

#[test]
fn a_call_is_answered_while_requests_are_under_way() {
    for dialect in Dialect::BOTH {
        let server = dialect
            .odd("workers = { min = 1, max = 1 }\nconcurrency = 8")
            .start();
        let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
        for _ in 0..5 {
            for client in &mut clients {
                client.request("GET", "/call");
            }
            for client in &mut clients {
                let answer = client.response();
                let (code, error) = (&answer.json()["code"], &answer.json()["error"]);
                assert_eq!(
                    (code.as_i64(), error.as_str()),
                    (Some(-1), Some("this server answers no calls"))
                );
            }
        }
    }
}

#[test]
fn a_controller_that_calls_and_never_listens_is_stopped() {
    for dialect in Dialect::BOTH {
        let server = dialect
            .odd("workers = { min = 1, max = 1 }\nmessage_bytes_max = \"64KiB\"")
            .start();
        assert_eq!(server.get("/calls").status, 502);
        server.wait_for_log(&["does not read the answers to its calls", "\"worker\":1"]);
        wait_until("its end to be counted", || {
            metric(
                &server,
                "forebay_pool_workers_ended_total{pool=\"api\",cause=\"protocol\"}",
            ) == 1
        });
        assert_eq!(server.post("/echo", b"1").status, 200);
    }
}
