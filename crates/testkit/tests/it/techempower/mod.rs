//! The acceptance test of the TechEmpower benchmarks, run against a server that follows all rules, and against one for each way to break a
//! rule.

mod example;
mod server;

use forebay_testkit::{
    Postgres,
    techempower::{Check, Kind, problems},
};

use self::server::{Break, Server};

#[test]
fn a_server_that_keeps_all_rules_has_no_problem() {
    let postgres = Postgres::start();
    let server = Server::start(&postgres, Break::Nothing);
    for kind in Kind::ALL {
        assert_eq!(problems(server.address(), &postgres, kind), [], "{kind:?}");
    }
}

/// Checks servers that break one rule each; every one must be detected, by its own check.
fn are_found(breaks: &[(Kind, Break, Check)]) {
    let postgres = Postgres::start();
    for (kind, broken, check) in breaks {
        let server = Server::start(&postgres, *broken);
        let problems = problems(server.address(), &postgres, *kind);
        assert!(!problems.is_empty(), "{kind:?} with {broken:?}");
        for problem in problems {
            assert_eq!(problem.check, *check, "{kind:?} with {broken:?}: {problem}");
        }
    }
}

#[test]
fn answers_without_what_all_answers_have_are_found() {
    are_found(&[
        (Kind::Json, Break::Status, Check::Answer),
        (Kind::Fortunes, Break::Status, Check::Answer),
        (Kind::Plaintext, Break::Empty, Check::Answer),
        (Kind::Json, Break::NotJson, Check::Answer),
        (Kind::Queries, Break::NotJson, Check::Answer),
        (Kind::Json, Break::NoServer, Check::Fields),
        (Kind::Queries2, Break::NoServer, Check::Fields),
        (Kind::Plaintext, Break::NoDate, Check::Fields),
        (Kind::Json, Break::FalseDate, Check::Fields),
        (Kind::Json, Break::NoLength, Check::Fields),
        (Kind::Json, Break::MediaType, Check::MediaType),
        (Kind::Plaintext, Break::MediaType, Check::MediaType),
        (Kind::Fortunes, Break::MediaType, Check::MediaType),
    ]);
}

#[test]
fn a_date_that_stands_still_is_found() {
    are_found(&[(Kind::Json, Break::FrozenDate, Check::Fields)]);
}

#[test]
fn other_greetings_are_found() {
    are_found(&[
        (Kind::Json, Break::Greeting, Check::Greeting),
        (Kind::Plaintext, Break::Greeting, Check::Greeting),
    ]);
}

#[test]
fn rows_that_are_not_rows_of_the_table_are_found() {
    are_found(&[
        (Kind::Db, Break::Keys, Check::World),
        (Kind::Db, Break::Texts, Check::World),
        (Kind::Db, Break::Invented, Check::World),
        (Kind::Db, Break::OneRow, Check::World),
        (Kind::Queries, Break::Keys, Check::World),
        (Kind::Queries2, Break::Invented, Check::World),
        (Kind::CachedQueries, Break::Texts, Check::World),
    ]);
}

#[test]
fn other_numbers_of_rows_than_asked_for_are_found() {
    are_found(&[
        (Kind::Queries, Break::NoLeast, Check::Rows),
        (Kind::Queries2, Break::NoMost, Check::Rows),
        (Kind::CachedQueries, Break::NoMost, Check::Rows),
        (Kind::Updates, Break::NoLeast, Check::Rows),
        (Kind::Queries, Break::OneObject, Check::Rows),
    ]);
}

#[test]
fn updates_that_do_not_write_what_they_answer_are_found() {
    are_found(&[
        (Kind::Updates, Break::NotWritten, Check::Changed),
        (Kind::Updates, Break::OneNumber, Check::Changed),
    ]);
}

#[test]
fn pages_with_other_rows_are_found() {
    are_found(&[
        (Kind::Fortunes, Break::Unsorted, Check::Page),
        (Kind::Fortunes, Break::Unescaped, Check::Page),
        (Kind::Fortunes, Break::Latin, Check::Page),
    ]);
}

#[test]
fn statements_that_are_not_executed_or_not_one_by_one_are_found() {
    are_found(&[
        (Kind::Db, Break::FromMemory, Check::Statements),
        (Kind::Queries, Break::FromMemory, Check::Statements),
        (Kind::Queries2, Break::AllAtOnce, Check::Statements),
        (Kind::Updates, Break::ReadsWhileWriting, Check::Statements),
        (Kind::Fortunes, Break::FromMemory, Check::Statements),
        (Kind::Json, Break::FewClients, Check::Statements),
    ]);
}
