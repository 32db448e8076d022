//! Repeats tests of the preferred engine with epoll: the two share everything but how bytes are sent and received.

use forebay_load::plan::Engine;

use crate::rig::with_engine;

macro_rules! again {
    ($module:ident: $($name:ident),+ $(,)?) => {
        mod $module {
            $(#[test]
            fn $name() {
                super::with_engine(super::Engine::Epoll, crate::$module::$name);
            })+
        }
    };
}

again!(faults:
    each_fault_has_its_class,
    what_is_odd_but_right_is_no_failure,
    an_answer_that_nobody_asked_for_is_a_failure_beside_the_answer,
    with_faults_now_and_then_every_request_has_its_end,
    a_peer_that_only_accepts_is_not_flooded_with_connections,
    a_close_that_was_not_announced_costs_at_most_what_was_under_way,
    a_reset_in_the_middle_of_an_answer_is_a_reset,
    a_body_without_a_length_ends_with_its_connection,
    bytes_on_a_connection_that_waits_are_unsolicited,
    another_protocol_is_no_answer,
    interim_answers_may_come_in_pieces_but_not_for_ever,
    a_body_without_end_is_ended_by_the_time_out_however_fast_it_comes,
    a_peer_that_never_reads_is_ended_by_the_time_out,
    a_time_out_is_a_latency_of_at_least_the_time_out,
);

again!(counts:
    a_number_of_requests_is_sent_exactly,
    a_run_of_some_time_counts_what_the_server_counts,
    warm_up_measurement_and_what_comes_after_are_all_there_is,
    a_server_that_announces_its_close_costs_a_connection_and_nothing_else,
    several_requests_are_sent_in_turn,
    connections_take_lanes_in_turn,
    an_answer_to_head_has_no_body_to_wait_for,
    long_requests_and_long_answers_arrive_whole,
    answers_of_another_status_are_answers_and_failures,
    an_open_load_counts_as_exactly_as_a_closed_one,
    an_open_load_of_a_fixed_number_ends_although_more_is_due_and_connections_are_free,
);
