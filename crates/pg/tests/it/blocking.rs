//! Number and lifetime of a blocking source's connections.

use std::time::{Duration, Instant};

use forebay_pg::{Beginning, BlockingConnection, Driver, Settings, Source};
use forebay_testkit::Postgres;

use crate::{
    relay::Relay,
    rig::{PATIENCE, becomes, query, run, settings, source, value},
};

/// Settings whose connections have this `application_name`.
fn named(postgres: &Postgres, name: &str) -> Settings {
    let url = format!("{}&application_name={name}", postgres.url());
    settings(&url, Driver::Blocking)
}

fn count(name: &str) -> String {
    format!("select count(*) from pg_stat_activity where application_name = '{name}'")
}

#[test]
fn so_many_connections_are_kept_and_those_beyond_are_closed_when_they_have_nothing_to_do() {
    let postgres = Postgres::shared();
    run(async {
        let observer = source(postgres, Driver::Pipelined);
        let mut kept = named(postgres, "kept");
        (kept.connections_min, kept.connections_max) = (2, 6);
        kept.idle_timeout = Duration::from_secs(1);
        let kept = Source::new("main", kept, 1);
        // The first statement opens the minimum of connections.
        value(&kept, "select 1", &[]).await;
        becomes(&observer, &count("kept"), "2").await;
        let slow = || query(&kept, "select pg_sleep(0.5)", &[]);
        let four = count("kept");
        let (a, b, c, d, ()) = tokio::join!(slow(), slow(), slow(), slow(), becomes(&observer, &four, "4"));
        assert!(a.is_ok() && b.is_ok() && c.is_ok() && d.is_ok());
        becomes(&observer, &count("kept"), "2").await;
        // All became idle at once; those to be kept stay when the others have been closed.
        value(&observer, "select '' from pg_sleep(0.2)", &[]).await;
        assert_eq!(value(&observer, &count("kept"), &[]).await, "2");
        value(&kept, "select 1", &[]).await;
        becomes(&observer, &count("kept"), "2").await;
    });
}

#[test]
fn a_connection_that_is_old_is_replaced() {
    let postgres = Postgres::shared();
    run(async {
        let mut old = named(postgres, "old");
        old.connection_age_max = Duration::from_millis(1);
        let old = Source::new("main", old, 1);
        let pid = "select pg_backend_pid()::text from pg_sleep(0.002)";
        let first = value(&old, pid, &[]).await;
        assert_ne!(value(&old, pid, &[]).await, first);
        let mut pids = Vec::new();
        for _ in 0..2 {
            let deadline = Instant::now() + PATIENCE;
            let mut transaction = old.begin(Beginning::default(), deadline).await.unwrap();
            let rows = transaction.query(pid, &[]).await.unwrap();
            pids.push(crate::rig::first(&rows).to_owned());
            transaction.commit().await.unwrap();
        }
        assert_ne!(pids[0], pids[1]);
    });
}

#[test]
fn a_connection_that_leads_nowhere_after_it_had_nothing_to_do_is_replaced_before_its_next_statement() {
    let postgres = Postgres::shared();
    let relay = Relay::to(postgres.port());
    run(async {
        let observer = source(postgres, Driver::Pipelined);
        let mut idle = named(postgres, "forgotten");
        idle.server = relay
            .url(
                &format!("{}&application_name=forgotten", postgres.url()),
                postgres.port(),
            )
            .parse()
            .unwrap();
        let idle = Source::new("main", idle, 1);
        value(&idle, "select 1", &[]).await;
        // As a firewall does with idle connections.
        relay.forget();
        let since = "select (clock_timestamp() - state_change > interval '600 ms')::text from pg_stat_activity where application_name = 'forgotten'";
        becomes(&observer, since, "true").await;
        assert_eq!(value(&idle, "select 'there'", &[]).await, "there");
    });
}

#[test]
fn who_has_a_connection_alone_is_told_of_a_statement_that_the_server_has_forgotten() {
    let settings = named(Postgres::shared(), "alone");
    let mut connection = BlockingConnection::connect(&settings).unwrap();
    let until = Instant::now() + PATIENCE;
    let insert = "insert into alone values (1)";
    for statement in [
        "create temporary table alone (number int)",
        insert,
        "deallocate all",
        "begin",
        "commit",
    ] {
        connection.run(&[(statement, &[])], until).remove(0).unwrap();
    }
    // Repeated behind the failed transaction, it would be done although the commit was refused.
    let outcomes = connection.run(&[("begin", &[]), (insert, &[]), ("commit", &[])], until);
    assert!(
        outcomes
            .iter()
            .any(|outcome| outcome.as_ref().is_err_and(forebay_pg::PgError::is_stale)),
        "{outcomes:?}"
    );
    let rows = connection
        .run(&[("select number from alone", &[])], until)
        .remove(0)
        .unwrap();
    assert_eq!(rows.rows.len(), 1);
    assert!(connection.run(&[(insert, &[])], until).remove(0).is_ok());
}
