//! The pages on records and TQL: every exchange that they show, in its order.

use crate::store::guide::exchanges_go_as_written;

#[test]
fn every_exchange_of_the_guide_goes_as_it_says() {
    exchanges_go_as_written("guide/records.md", 10);
}

#[test]
fn every_example_of_the_reference_goes_as_it_says() {
    exchanges_go_as_written("reference/tql.md", 25);
}
