//! Sources for tests, and an event loop to run statements in.

use std::time::{Duration, Instant};

use forebay_pg::{Driver, PgError, Rows, Settings, Source};
use forebay_testkit::Postgres;
use tokio::task::LocalSet;

/// How long a test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const BOTH: [Driver; 2] = [Driver::Pipelined, Driver::Blocking];

pub(crate) fn settings(url: &str, driver: Driver) -> Settings {
    Settings {
        server: url.parse().unwrap(),
        driver,
        connections_max: 1,
        connections_min: 0,
        connection_age_max: PATIENCE * 60,
        idle_timeout: PATIENCE * 60,
        leak_warning: PATIENCE * 60,
        in_flight_max: 10_000,
        result_bytes_max: 256 << 20,
        acquire_timeout: PATIENCE,
        connect_timeout: PATIENCE,
        statement_timeout: PATIENCE,
        slow_query: None,
    }
}

/// A source with one connection.
pub(crate) fn source(postgres: &Postgres, driver: Driver) -> Source {
    Source::new("main", settings(&postgres.url(), driver), 1)
}

/// Runs futures as tasks of one thread.
pub(crate) fn run<O>(tasks: impl Future<Output = O>) -> O {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let outcome = LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(PATIENCE * 2, tasks)
            .await
            .expect("the test takes too long")
    });
    runtime.shutdown_background();
    outcome
}

pub(crate) async fn query(source: &Source, text: &str, parameters: &[Option<&str>]) -> Result<Rows, PgError> {
    let parameters: Vec<Option<&[u8]>> = parameters
        .iter()
        .map(|parameter| parameter.map(str::as_bytes))
        .collect();
    source.query(text, &parameters, Instant::now() + PATIENCE).await
}

/// The first value of the first row.
pub(crate) async fn value(source: &Source, text: &str, parameters: &[Option<&str>]) -> String {
    let rows = query(source, text, parameters).await.unwrap();
    first(&rows).to_owned()
}

pub(crate) fn first(rows: &Rows) -> &str {
    std::str::from_utf8(rows.rows[0].text(0).unwrap()).unwrap()
}

/// Waits until statements work.
pub(crate) async fn works(source: &Source) {
    let begun = Instant::now();
    while let Err(error) = query(source, "select 1", &[]).await {
        assert!(begun.elapsed() < PATIENCE, "{error:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a query returns this value.
pub(crate) async fn becomes(source: &Source, text: &str, wanted: &str) {
    let begun = Instant::now();
    loop {
        let found = query(source, text, &[]).await;
        if found.as_ref().is_ok_and(|rows| first(rows) == wanted) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{text}: {found:?}, not {wanted}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
