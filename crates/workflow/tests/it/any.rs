//! Property test: any graph text is either rejected, or its run terminates.

use std::fmt::Write as _;

use forebay_workflow::{Compat, check};
use proptest::prelude::*;

use crate::recorded::{definition, run_with};

fn any_graph() -> impl Strategy<Value = String> {
    let kinds = [
        "BOOT",
        "PROCESS a",
        "RELATION b",
        "RUN c",
        "FAILBACK d",
        "LOGICAL AND",
        "LOGICAL ALL_OR",
        "LOGICAL NOT",
    ];
    let nodes = prop::collection::vec((prop::sample::select(kinds.to_vec()), 0..4_u8), 1..8);
    let edges = prop::collection::vec((0..9_u8, 0..9_u8), 1..12);
    (nodes, edges).prop_map(|(nodes, edges)| {
        let mut text = "0 BOOT\n".to_owned();
        for (number, (kind, priority)) in nodes.iter().enumerate() {
            let priority = if *priority == 0 {
                String::new()
            } else {
                format!(" @{priority}")
            };
            writeln!(text, "{} {kind}{priority}", number + 1).unwrap();
        }
        for (from, to) in edges {
            writeln!(text, "{from} -> {to}").unwrap();
        }
        text
    })
}

proptest! {
    #[test]
    fn it_is_refused_with_a_reason_or_runs_to_its_end(text in any_graph()) {
        for compat in [Compat::None, Compat::Rengine] {
            match check(&definition(&text), compat, |_| true) {
                Err(problems) => prop_assert!(!problems.is_empty()),
                Ok(graph) => {
                    let (rules, run) = run_with(&graph, &[]);
                    prop_assert!(run.outcome.is_ok());
                    // Each node runs at most once per iteration of the loops around it.
                    let turns = 2_usize.pow(text.matches("LOOP").count() as u32);
                    prop_assert!(rules.ran.take().len() <= graph.len() * turns && run.steps.len() <= graph.len() * turns);
                }
            }
        }
    }
}
