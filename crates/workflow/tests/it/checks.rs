//! Problems that the check finds in graphs before they run.

use std::fmt::Write as _;

use forebay_workflow::Compat;

use crate::recorded::{graph, problems};

#[test]
fn each_fault_is_named_with_its_nodes() {
    for (text, right) in [
        (
            "1 PROCESS a\n1 -> 1",
            "the graph has no node BOOT, with which it begins",
        ),
        (
            "0 BOOT\n9 BOOT\n1 RUN a\n2 RUN a\n0 -> 1\n9 -> 2",
            "node `9` is a second BOOT: a graph has one; node `9` is not reached from BOOT",
        ),
        (
            "0 BOOT\n1 RUN a\n1 RUN b\n0 -> 1",
            "node `1` is there twice; node `1` is not reached from BOOT",
        ),
        (
            "0 BOOT\n1 RUN a\n0 -> 1\n1 -> 7",
            "the edge from `1` to `7`: there is no node `7`",
        ),
        (
            "0 BOOT\n1 LOGICAL AND\n2 PROCESS a @1\n3 PROCESS a @2\n4 RUN a\n0 -> 1\n1 -> 2\n1 -> 3\n2 -> 4\n3 -> 4",
            "node `4` comes after both `2` and `3`: a node comes after one",
        ),
        (
            "0 BOOT\n1 PROCESS a\n2 PROCESS a\n3 PROCESS a\n4 RUN a\n0 -> 4\n1 -> 2\n2 -> 3\n3 -> 1",
            "node `1` comes after itself: 1 -> 2 -> 3 -> 1",
        ),
        (
            "0 BOOT\n1 PROCESS a\n0 -> 1\n1 -> 0",
            "the edge from `1` to `0`: nothing comes before BOOT",
        ),
        (
            "0 BOOT\n1 RUN a\n5 PROCESS a\n6 RUN a\n0 -> 1\n5 -> 6",
            "node `5` is not reached from BOOT",
        ),
        (
            "0 BOOT\n1 PROCESS a\n2 RUN a\n3 RUN a\n0 -> 1\n1 -> 2\n1 -> 3",
            "node `1` (PROCESS) goes on with both `2` and `3`: it can go on with one",
        ),
        (
            "0 BOOT\n1 FAILBACK a\n0 -> 1",
            "node `1` (FAILBACK) has nothing after it",
        ),
        (
            "0 BOOT\n1 LOGICAL AND\n0 -> 1",
            "node `1` (LOGICAL) has nothing after it",
        ),
        (
            "0 BOOT\n1 RUN a\n2 RUN a\n0 -> 1\n1 -> 2",
            "node `1` (RUN) ends its branch: `2` after it would never run",
        ),
        (
            "0 BOOT\n1 LOGICAL OR\n2 RUN a @1\n3 RUN a\n0 -> 1\n1 -> 2\n1 -> 3",
            "node `3` has no `priority`: `1` has several children, which run in the order of their priorities",
        ),
        (
            "0 BOOT\n1 LOGICAL OR\n2 RUN a @4\n3 RUN a @4\n0 -> 1\n1 -> 2\n1 -> 3",
            "nodes `2` and `3` have the same priority 4 under `1`",
        ),
        (
            "0 BOOT\n1 LOGICAL NOT\n2 RUN a @1\n3 RUN a @2\n0 -> 1\n1 -> 2\n1 -> 3",
            "node `1` (LOGICAL NOT) has 2 children: it negates one",
        ),
        (
            "0 BOOT\n1 RUN unknown\n0 -> 1",
            "node `1`: there is no rule `unknown`",
        ),
        (
            "0 BOOT\n1 LOOP over:\"arg.a\"\n2 RUN a\n0 -> 1\n1 -> 2",
            "node `1` (LOOP): nothing gives `arg.a`: `over` begins with `args`, with `last` behind a rule, or with `item` within another LOOP",
        ),
        (
            "0 BOOT\n1 DELAY delayMs:1\n2 LOOP over:\"last.a\"\n3 PROCESS a\n4 LOOP over:\"last.a\"\n5 LOOP over:\"item\"\n6 RUN a\n0 -> 1\n1 -> 2\n2 -> 3\n3 -> 4\n4 -> 5\n5 -> 6",
            "node `2` (LOOP): nothing gives `last.a`: `over` begins with `args`, with `last` behind a rule, or with `item` within another LOOP",
        ),
        (
            "0 BOOT\n1 LOOP over:\"item.a\"\n2 RUN a\n0 -> 1\n1 -> 2",
            "node `1` (LOOP): nothing gives `item.a`: `over` begins with `args`, with `last` behind a rule, or with `item` within another LOOP",
        ),
    ] {
        let problems: Vec<_> = problems(text, Compat::None)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(problems.join("; "), right, "{text}");
    }
}

#[test]
fn a_boot_with_nothing_behind_it_is_told() {
    let definition = r#"{"nodes": [{"@type": "BOOT", "id": 0}], "edges": [{"from": 0, "to": 1}]}"#;
    let definition = forebay_workflow::Definition::parse(definition.as_bytes()).unwrap();
    let problems = forebay_workflow::check(&definition, Compat::Rengine, |_| true).unwrap_err();
    let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
    let right = [
        "the edge from `0` to `1`: there is no node `1`",
        "node `0` (BOOT) has nothing after it",
    ];
    assert_eq!(problems, right);
}

#[test]
fn a_graph_may_be_so_deep_and_no_deeper() {
    let chain = |nodes: usize| {
        let mut text = "0 BOOT\n".to_owned();
        for node in 1..=nodes {
            writeln!(text, "{node} PROCESS a\n{} -> {node}", node - 1).unwrap();
        }
        text
    };
    assert_eq!(graph(&chain(200), Compat::None).len(), 200);
    let problems: Vec<_> = problems(&chain(300), Compat::None)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(problems[0], "node `201` is more than 200 nodes behind BOOT");
}

#[test]
fn in_rengine_what_is_not_reached_is_left_out() {
    let graph = graph(
        "0 BOOT\n1 RUN a\n5 PROCESS a\n6 LOGICAL AND\n0 -> 1\n5 -> 6\n6 -> 5",
        Compat::Rengine,
    );
    assert_eq!(graph.len(), 1);
    assert_eq!(graph.rules().collect::<Vec<_>>(), ["a"]);
}
