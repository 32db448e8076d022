//! Notifications for listeners.

use std::time::{Duration, Instant};

use forebay_pg::{BlockingConnection, Driver, Heard, Listener, Source};
use forebay_testkit::Postgres;
use serde_json::json;

use crate::{
    rig::{BOTH, PATIENCE, becomes, query, run, settings, source},
    session::{call, session_of},
};

async fn listen(source: &Source, channel: &str) -> Listener {
    source.listen(channel, Instant::now() + PATIENCE).await.unwrap()
}

async fn tell(source: &Source, channel: &str, payload: &str) {
    let told = query(
        source,
        "select pg_notify($1, $2)",
        &[Some(channel), Some(payload)],
    )
    .await;
    told.unwrap();
}

/// Waits for that many events.
async fn hears(listener: &Listener, count: usize) -> Vec<Heard> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(listener.hear().await);
    }
    all
}

fn payload(text: &str) -> Heard {
    Heard::Payload(text.to_owned())
}

const LISTENING: &str =
    "select count(*) from pg_stat_activity where query like 'listen %' or query like 'unlisten %'";

#[test]
fn each_listener_hears_what_its_channel_is_told_in_order() {
    let postgres = Postgres::start();
    run(async {
        for driver in BOTH {
            let source = source(&postgres, driver);
            // Names are taken literally, whatever they contain.
            let names = ["orders", "Orders", "a\"; drop table world; --", "ünï"];
            let mut listeners = Vec::new();
            for name in names.iter().chain(&names) {
                listeners.push(listen(&source, name).await);
            }
            for name in names {
                for number in 0..100 {
                    tell(&source, name, &format!("{name} {number}")).await;
                }
                tell(&source, name, "").await;
            }
            for (listener, name) in listeners.iter().zip(names.iter().chain(&names)) {
                let mut expected: Vec<_> = (0..100)
                    .map(|number| payload(&format!("{name} {number}")))
                    .collect();
                expected.push(payload(""));
                assert_eq!(hears(listener, 101).await, expected);
            }
            becomes(&source, LISTENING, "1").await;
            drop(listeners);
            becomes(&source, LISTENING, "0").await;
            let again = listen(&source, "orders").await;
            tell(&source, "orders", "again").await;
            assert_eq!(hears(&again, 1).await, [payload("again")]);
        }
    });
}

#[test]
fn who_listens_is_told_that_something_may_be_missing_after_the_connection_broke() {
    let mut postgres = Postgres::start();
    run(async {
        let source = source(&postgres, Driver::Pipelined);
        let one = listen(&source, "one").await;
        let two = listen(&source, "two").await;
        tell(&source, "one", "before").await;
        assert_eq!(hears(&one, 1).await, [payload("before")]);
        for is_stopped in [false, true] {
            if is_stopped {
                postgres.stop();
                let refused = source
                    .listen("three", Instant::now() + PATIENCE)
                    .await
                    .unwrap_err();
                assert_eq!(refused.code().as_str(), "unreachable");
                // Restarting blocks, so it needs a thread of its own.
                std::thread::scope(|scope| scope.spawn(|| postgres.start_again()).join().unwrap());
            } else {
                let end =
                    "select pg_terminate_backend(pid) from pg_stat_activity where query like 'listen %'";
                query(&source, end, &[]).await.unwrap();
            }
            assert_eq!(hears(&one, 1).await, [Heard::Lost]);
            assert_eq!(hears(&two, 1).await, [Heard::Lost]);
            // From then on nothing is lost.
            while query(&source, "select 1", &[]).await.is_err() {}
            tell(&source, "one", "after").await;
            assert_eq!(hears(&one, 1).await, [payload("after")]);
        }
    });
}

#[test]
fn who_does_not_listen_in_time_is_told_that_something_is_missing() {
    let postgres = Postgres::shared();
    run(async {
        let source = source(postgres, Driver::Pipelined);
        let slow = listen(&source, "slow").await;
        let quick = listen(&source, "slow").await;
        for number in 0..300 {
            tell(&source, "slow", &number.to_string()).await;
            assert_eq!(hears(&quick, 1).await, [payload(&number.to_string())]);
        }
        let heard = hears(&slow, 257).await;
        assert_eq!(
            (heard.len(), &heard[255], &heard[256]),
            (257, &payload("255"), &Heard::Lost)
        );
        tell(&source, "slow", "later").await;
        assert_eq!(hears(&slow, 1).await, [payload("later")]);
    });
}

#[test]
fn a_channel_that_cannot_be_is_refused() {
    let postgres = Postgres::shared();
    run(async {
        let source = source(postgres, Driver::Pipelined);
        for name in ["", "a\0b", &"x".repeat(64)] {
            let error = source.listen(name, Instant::now() + PATIENCE).await.unwrap_err();
            assert_eq!(error.code().as_str(), "not_sendable", "{name}: {error}");
        }
        listen(&source, &"x".repeat(63)).await;
        let nobody = Source::new(
            "main",
            settings("postgres://nobody@127.0.0.1:1/none", Driver::Pipelined),
            1,
        );
        let error = nobody.listen("a", Instant::now() + PATIENCE).await.unwrap_err();
        assert_eq!(error.code().as_str(), "unreachable");
    });
}

#[test]
fn handlers_hear_until_they_close() {
    let postgres = Postgres::shared();
    run(async {
        let source = source(postgres, Driver::Pipelined);
        let session = session_of(&source);
        let listen = call(
            &session,
            json!({"op": "listen", "source": "main", "channel": "session"}),
        )
        .await;
        let hear = json!({"op": "hear", "source": "main", "listen": listen["listen"], "wait_ms": 1});
        assert_eq!(call(&session, hear.clone()).await, json!({"heard": []}));
        tell(&source, "session", "a \"b\"").await;
        let mut longer = hear.clone();
        longer["wait_ms"] = json!(30_000);
        assert_eq!(call(&session, longer).await, json!({"heard": ["a \"b\""]}));
        let close = json!({"op": "close", "source": "main", "id": listen["listen"]});
        assert_eq!(call(&session, close).await, json!({}));
        assert_eq!(call(&session, hear).await["error"]["code"], "not_open");
    });
}

#[test]
fn a_notification_that_came_with_the_answer_to_a_statement_is_heard() {
    let settings = settings(&Postgres::shared().url(), Driver::Blocking);
    let mut connection = BlockingConnection::connect(&settings).unwrap();
    let until = Instant::now() + PATIENCE;
    // A server sends a connection its own notifications before it is ready for the next statement.
    for statement in ["listen alone", "notify alone"] {
        connection.run(&[(statement, &[])], until).remove(0).unwrap();
    }
    assert!(connection.hear(until).unwrap());
    assert!(
        !connection
            .hear(Instant::now() + Duration::from_millis(1))
            .unwrap()
    );
}
