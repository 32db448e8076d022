//! Prepared statements.

use forebay_testkit::Postgres;

use crate::rig::{BOTH, query, run, source, value};

#[test]
fn a_connection_keeps_so_many_statements_and_closes_others() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let source = source(postgres, driver);
            let count = "select count(*) from pg_prepared_statements";
            for number in 0..300 {
                let text = format!("select {number}");
                assert_eq!(value(&source, &text, &[]).await, number.to_string());
                // A statement in use stays prepared.
                assert_ne!(value(&source, count, &[]).await, "0");
            }
            assert_eq!(value(&source, count, &[]).await, "256");
            let kept = "select count(*) from pg_prepared_statements where statement = 'select 299'";
            assert_eq!(value(&source, kept, &[]).await, "1");
            let kept = "select count(*) from pg_prepared_statements where statement = 'select 0'";
            assert_eq!(value(&source, kept, &[]).await, "0");
            assert_eq!(value(&source, "select 0", &[]).await, "0");
        }
    });
}

#[test]
fn a_statement_whose_result_has_changed_is_prepared_anew() {
    let postgres = Postgres::start();
    let mut admin = postgres.admin();
    for driver in BOTH {
        admin
            .batch_execute(
                "drop table if exists things; create table things (a int); insert into things values (1); \
                 grant all on things to benchmarkdbuser",
            )
            .unwrap();
        let source = source(&postgres, driver);
        let text = "select * from things";
        run(async {
            assert_eq!(query(&source, text, &[]).await.unwrap().columns.len(), 1);
            std::thread::scope(|scope| {
                scope.spawn(|| admin.batch_execute("alter table things add b text").unwrap());
            });
            let rows = query(&source, text, &[]).await.unwrap();
            assert_eq!((rows.columns.len(), rows.rows[0].len()), (2, 2));
            // The server loses all of them.
            let gone = "do $$ begin execute 'deallocate all'; end $$";
            query(&source, gone, &[]).await.unwrap();
            assert_eq!(query(&source, text, &[]).await.unwrap().rows.len(), 1);
        });
    }
}

#[test]
fn a_statement_that_cannot_be_prepared_says_why_each_time() {
    let postgres = Postgres::shared();
    run(async {
        for driver in BOTH {
            let source = source(postgres, driver);
            for _ in 0..3 {
                let error = query(&source, "select nothing", &[]).await.unwrap_err();
                let forebay_pg::PgError::Server(error) = error else {
                    panic!("{error:?}")
                };
                assert_eq!((&*error.code, error.position), ("42703", Some(8)));
            }
        }
    });
}
