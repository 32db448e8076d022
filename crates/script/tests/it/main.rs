//! Tests of scripts as the server runs them, with the SDK that `make sdk` has built.

mod budgets;
mod call_inbox;
mod handlers;
mod json;
mod records;
mod rule_data;
mod rule_stores;
mod rules;
mod scripts;
mod sharing;
mod store_waits;
mod threads;
mod tools;
mod web;
