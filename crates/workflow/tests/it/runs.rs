//! What runs in which order, and what it comes to.

use forebay_workflow::Compat;

use crate::recorded::{Does, course, graph, run_with};

/// The promotion of an online shop that Rengine's authors have announced as their second benchmark.
const PROMOTION: &str = "
    0 BOOT
    11 PROCESS 11
    21 RELATION 21
    31 LOGICAL ALL_AND
    41 LOGICAL AND @1
    42 LOGICAL AND @2
    51 RELATION 51 @1
    52 LOGICAL AND @2
    61 RELATION 61
    62 FAILBACK 62
    71 RUN 71
    53 RELATION 53 @1
    54 RELATION 54 @2
    63 RUN 63
    0 -> 11
    11 -> 21
    21 -> 31
    31 -> 41
    31 -> 42
    41 -> 51
    51 -> 61
    41 -> 52
    52 -> 62
    62 -> 71
    42 -> 53
    42 -> 54
    54 -> 63";

#[test]
fn eight_rules_of_the_promotion_run_in_their_order() {
    for compat in [Compat::None, Compat::Rengine] {
        let graph = graph(PROMOTION, compat);
        assert_eq!(graph.len(), 13);
        let all = "11 21 51 61 71 53 54 63".to_owned();
        assert_eq!(course(&graph, &[]), (all, "63".into()));
        // The gift is not in stock: no balance, but points.
        let (ran, outcome) = course(&graph, &[("61", Does::False)]);
        assert_eq!((&*ran, &*outcome), ("11 21 51 61 53 54 63", "!63"));
        // To grant the balance fails: another way is there.
        let (ran, outcome) = course(&graph, &[("71", Does::Fails)]);
        assert_eq!((&*ran, &*outcome), ("11 21 51 61 71 62 53 54 63", "63"));
    }
}

#[test]
fn a_false_rule_ends_its_branch_with_its_own_values() {
    let graph = graph("0 BOOT\n1 PROCESS a\n2 PROCESS b\n0 -> 1\n1 -> 2", Compat::None);
    assert_eq!(course(&graph, &[]), ("a b".into(), "b".into()));
    assert_eq!(course(&graph, &[("a", Does::False)]), ("a".into(), "!a".into()));
    assert_eq!(course(&graph, &[("b", Does::False)]), ("a b".into(), "!b".into()));
}

#[test]
fn a_rule_that_fails_ends_the_run_and_says_at_which_node() {
    let graph = graph("0 BOOT\n1 PROCESS a\n2 PROCESS b\n0 -> 1\n1 -> 2", Compat::None);
    let (ran, outcome) = course(&graph, &[("a", Does::Fails)]);
    assert_eq!((&*ran, &*outcome), ("a", "?node `1` failed: a throws"));
}

#[test]
fn children_decide_as_their_logic_says() {
    use Does::{False, True};
    let decided = |logical: &str, a: Does, b: Does, compat| {
        let text = format!("0 BOOT\n1 LOGICAL {logical}\n2 RUN b @2\n3 RUN a @1\n0 -> 1\n1 -> 2\n1 -> 3");
        course(&graph(&text, compat), &[("a", a), ("b", b)])
    };
    let ours = Compat::None;
    for (logical, a, b, ran, outcome) in [
        ("AND", True, True, "a b", "b"),
        ("AND", True, False, "a b", "!b"),
        ("AND", False, True, "a", "!a"),
        ("OR", True, False, "a", "a"),
        ("OR", False, True, "a b", "b"),
        ("OR", False, False, "a b", "!b"),
        ("ALL_AND", False, True, "a b", "!b"),
        ("ALL_AND", True, True, "a b", "b"),
        ("ALL_OR", True, False, "a b", "b"),
        ("ALL_OR", False, False, "a b", "!b"),
    ] {
        let decided = decided(logical, a, b, ours);
        assert_eq!(decided, (ran.into(), outcome.into()), "{logical} {a:?} {b:?}");
    }
    let in_rengine = decided("ALL_OR", False, False, Compat::Rengine);
    assert_eq!(in_rengine, ("a b".into(), "b".into()), "it is always true there");
}

#[test]
fn not_is_the_contrary_of_its_child() {
    let graph = graph("0 BOOT\n1 LOGICAL NOT\n2 RUN a\n0 -> 1\n1 -> 2", Compat::None);
    assert_eq!(course(&graph, &[]), ("a".into(), "!a".into()));
    assert_eq!(course(&graph, &[("a", Does::False)]), ("a".into(), "a".into()));
    let (_, outcome) = course(&graph, &[("a", Does::Fails)]);
    assert_eq!(outcome, "?node `2` failed: a throws");
}

#[test]
fn a_fallback_is_for_failures_only_and_may_fail_too() {
    let graph = graph("0 BOOT\n1 FAILBACK b\n2 PROCESS a\n0 -> 1\n1 -> 2", Compat::None);
    assert_eq!(course(&graph, &[("a", Does::False)]), ("a".into(), "!a".into()));
    assert_eq!(course(&graph, &[("a", Does::Fails)]), ("a b".into(), "b".into()));
    let both = [("a", Does::Fails), ("b", Does::Fails)];
    assert_eq!(
        course(&graph, &both),
        ("a b".into(), "?node `1` failed: b throws".into())
    );
}

#[test]
fn a_rule_sees_what_the_one_before_it_has_come_to() {
    let text = "0 BOOT\n1 PROCESS a\n2 LOGICAL AND\n3 RELATION b @1\n4 RUN c\n5 RUN d @2\n0 -> 1\n1 -> 2\n2 -> 3\n3 -> 4\n2 -> 5";
    let seen = |compat| {
        let (rules, _) = run_with(&graph(text, compat), &[]);
        let seen = rules
            .ran
            .into_iter()
            .map(|(rule, last)| format!("{rule}:{}", last.unwrap_or_default()));
        seen.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(seen(Compat::None), "a: b:a c:b d:c");
    // There the result of a branch is known when all of it is over.
    assert_eq!(seen(Compat::Rengine), "a: b: c: d:c");
}

#[test]
fn what_each_node_has_come_to_is_remembered_in_the_order_of_their_ends() {
    let graph = graph(PROMOTION, Compat::None);
    let (_, run) = run_with(&graph, &[("71", Does::Fails), ("62", Does::Fails)]);
    let steps: Vec<_> = run
        .steps
        .iter()
        .map(|step| (&*step.node, step.outcome.is_ok()))
        .collect();
    let failed = |node| (node, false);
    let right = [
        ("61", true),
        ("51", true),
        failed("71"),
        failed("62"),
        failed("52"),
        failed("41"),
        failed("31"),
        failed("21"),
        failed("11"),
    ];
    assert_eq!(steps, right);
    assert!(run.steps.iter().all(|step| step.begun + step.took >= step.took));
    let order: Vec<_> = run.steps.iter().map(|step| step.begun + step.took).collect();
    assert!(order.is_sorted());
}

#[test]
fn in_rengine_a_node_keeps_its_last_successor_and_its_first_parent() {
    let text = "0 BOOT\n1 PROCESS a\n2 RUN b\n3 RUN c\n4 RUN d\n0 -> 1\n1 -> 2\n1 -> 3\n2 -> 4\n3 -> 4";
    assert_eq!(
        course(&graph(text, Compat::Rengine), &[]),
        ("a c".into(), "c".into())
    );
}
