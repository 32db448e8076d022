//! The configuration from outside: what valid files come to, the errors of others, generated documents.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod config;
mod config_environment;
mod config_errors;
mod config_include;
mod config_noise;
mod config_store;
mod config_workflow;
mod golden;
mod python;
mod reference;
