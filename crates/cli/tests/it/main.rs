//! Tests of the built `forebay` through its command line.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bench_ladder;
mod bench_pool;
mod check;
mod control;
mod exit_codes;
mod gorules;
mod load;
mod load_report;
mod load_requests;
mod load_searches;
mod load_tools;
mod new;
mod profile;
mod run;
mod seeds;
mod serve;
mod showcase;
mod site;
mod store_copies;
mod store_gtm;
mod store_index;
mod store_nodes;
mod store_shell;
mod store_transfer;
mod terminal;
mod top;
mod typescript;
mod workflow;
mod workflow_seed;
