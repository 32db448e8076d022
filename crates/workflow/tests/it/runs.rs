//! Order and outcome of the rules in a run.

use forebay_workflow::{Compat, Step};

use crate::recorded::{Does, Recorded, driver, graph, run_in, run_with, told};

/// The promotion of an online shop that Rengine's authors announced as their second benchmark.
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
        assert_eq!(driver(&graph, &[]), (all, "63".into()));
        // The gift is out of stock: points instead of the balance.
        let (ran, outcome) = driver(&graph, &[("61", Does::False)]);
        assert_eq!((&*ran, &*outcome), ("11 21 51 61 53 54 63", "!63"));
        // Granting the balance fails: the other branch is used.
        let (ran, outcome) = driver(&graph, &[("71", Does::Fails)]);
        assert_eq!((&*ran, &*outcome), ("11 21 51 61 71 62 53 54 63", "63"));
    }
}

#[test]
fn a_false_rule_ends_its_branch_with_its_own_values() {
    let graph = graph("0 BOOT\n1 PROCESS a\n2 PROCESS b\n0 -> 1\n1 -> 2", Compat::None);
    assert_eq!(driver(&graph, &[]), ("a b".into(), "b".into()));
    assert_eq!(driver(&graph, &[("a", Does::False)]), ("a".into(), "!a".into()));
    assert_eq!(driver(&graph, &[("b", Does::False)]), ("a b".into(), "!b".into()));
}

#[test]
fn a_rule_that_fails_ends_the_run_and_says_at_which_node() {
    let graph = graph("0 BOOT\n1 PROCESS a\n2 PROCESS b\n0 -> 1\n1 -> 2", Compat::None);
    let (ran, outcome) = driver(&graph, &[("a", Does::Fails)]);
    assert_eq!((&*ran, &*outcome), ("a", "?node `1` failed: a throws"));
}

#[test]
fn children_decide_as_their_logic_says() {
    use Does::{False, True};
    let decided = |logical: &str, a: Does, b: Does, compat| {
        let text = format!("0 BOOT\n1 LOGICAL {logical}\n2 RUN b @2\n3 RUN a @1\n0 -> 1\n1 -> 2\n1 -> 3");
        driver(&graph(&text, compat), &[("a", a), ("b", b)])
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
    assert_eq!(driver(&graph, &[]), ("a".into(), "!a".into()));
    assert_eq!(driver(&graph, &[("a", Does::False)]), ("a".into(), "a".into()));
    let (_, outcome) = driver(&graph, &[("a", Does::Fails)]);
    assert_eq!(outcome, "?node `2` failed: a throws");
}

#[test]
fn a_fallback_is_for_failures_only_and_may_fail_too() {
    let graph = graph("0 BOOT\n1 FAILBACK b\n2 PROCESS a\n0 -> 1\n1 -> 2", Compat::None);
    assert_eq!(driver(&graph, &[("a", Does::False)]), ("a".into(), "!a".into()));
    assert_eq!(driver(&graph, &[("a", Does::Fails)]), ("a b".into(), "b".into()));
    let both = [("a", Does::Fails), ("b", Does::Fails)];
    assert_eq!(
        driver(&graph, &both),
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
            .take()
            .into_iter()
            .map(|(rule, last)| format!("{rule}:{}", last.unwrap_or_default()));
        seen.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(seen(Compat::None), "a: b:a c:b d:c");
    // In Rengine, the result of a branch is known only when the whole branch is done.
    assert_eq!(seen(Compat::Rengine), "a: b: c: d:c");
}

#[test]
fn a_trace_has_each_node_in_the_order_of_their_beginnings_below_the_one_that_led_to_it() {
    let graph = graph(PROMOTION, Compat::None);
    let (_, run) = run_with(&graph, &[("71", Does::Fails), ("62", Does::Fails)]);
    let told = |step: &Step<String, String>| {
        let parent = step.parent.map_or("", |parent| &*run.steps[parent].node.id);
        let own = step.own.as_ref().map_or("", |own| &*own.values);
        let input = step.input.as_deref().unwrap_or_default();
        let (_, outcome) = step.ended.as_ref().unwrap();
        format!("{}<{parent} {input}>{own} {}", step.node.id, outcome.is_ok())
    };
    let steps: Vec<_> = run.steps.iter().map(told).collect();
    let right = [
        "11< >11 false",
        "21<11 11>21 false",
        "31<21 21> false",
        "41<31 21> false",
        "51<41 21>51 true",
        "61<51 51>61 true",
        "52<41 61> false",
        "62<52 61> false",
        "71<62 61> false",
    ];
    assert_eq!(steps, right);
    let fallback = run.steps[7].fallback.as_ref().unwrap();
    assert_eq!(fallback.to_string(), "node `71` failed: 71 throws");
    assert!(run.steps.iter().map(|step| step.begun).is_sorted());
}

#[test]
fn a_trace_tells_cases_attempts_and_what_a_fallback_stands_in_for() {
    let text = r#"0 BOOT
        1 RETRY attempts:3
        2 PROCESS a name:"first"
        3 PROCESS b fallback:{"state":true}
        4 PARALLEL join:"ANY"
        5 RUN quick
        6 RUN slow
        0 -> 1
        1 -> 2
        2 -> 3
        3 -> 4
        4 -> 5
        4 -> 6"#;
    let does = [
        ("a", Does::FailsAtFirst(1)),
        ("b", Does::Fails),
        ("quick", Does::Takes(1)),
        ("slow", Does::Takes(50)),
    ];
    let (_, run) = run_with(&graph(text, Compat::None), &does);
    let ids: Vec<_> = run.steps.iter().map(|step| &*step.node.id).collect();
    assert_eq!(ids, ["1", "2", "2", "3", "4", "5", "6"]);
    assert_eq!(run.steps[0].attempts, Some(2));
    assert_eq!(run.steps[1].node.name.as_deref(), Some("first"));
    let fallback = run.steps[3].fallback.as_ref().unwrap();
    assert_eq!(fallback.to_string(), "node `3` failed: b throws");
    assert_eq!(run.steps[3].own.as_ref().unwrap().values, "{}");
    assert!(run.steps[5].ended.is_some());
    assert!(
        run.steps[6].ended.is_none(),
        "it was cancelled: {:?}",
        run.steps[6]
    );
}

#[test]
fn in_rengine_a_node_keeps_its_last_successor_and_its_first_parent() {
    let text = "0 BOOT\n1 PROCESS a\n2 RUN b\n3 RUN c\n4 RUN d\n0 -> 1\n1 -> 2\n1 -> 3\n2 -> 4\n3 -> 4";
    assert_eq!(
        driver(&graph(text, Compat::Rengine), &[]),
        ("a c".into(), "c".into())
    );
}

#[test]
fn a_switch_goes_on_with_the_case_that_its_rule_names() {
    let text = |rule: &str| {
        format!(
            "0 BOOT\n1 SWITCH {rule}\n2 RUN a\n3 RUN b\n4 RUN c\n0 -> 1\n1 -> 2 gold\n1 -> 3 silver\n1 -> 4"
        )
    };
    let chosen = |rule: &str, does: &[(&'static str, Does)]| driver(&graph(&text(rule), Compat::None), does);
    assert_eq!(chosen("r=gold", &[]), ("r=gold a".into(), "a".into()));
    assert_eq!(chosen("r=silver", &[]), ("r=silver b".into(), "b".into()));
    assert_eq!(chosen("r=copper", &[]), ("r=copper c".into(), "c".into()));
    assert_eq!(chosen("r", &[]), ("r c".into(), "c".into()));
    assert_eq!(
        chosen("r=gold", &[("r=gold", Does::False)]),
        ("r=gold".into(), "!r=gold".into())
    );
    let without = graph(
        "0 BOOT\n1 SWITCH r=copper\n2 RUN a\n0 -> 1\n1 -> 2 gold",
        Compat::None,
    );
    assert_eq!(driver(&without, &[]), ("r=copper".into(), "!r=copper".into()));
}

#[test]
fn children_run_at_the_same_time_and_are_joined_in_their_order() {
    let text = "0 BOOT\n1 PROCESS z\n2 PARALLEL\n3 PROCESS a\n4 RUN b\n5 RUN c\n0 -> 1\n1 -> 2\n2 -> 3\n2 -> 4\n3 -> 5";
    let graph = graph(text, Compat::None);
    let slow = [
        ("a", Does::Takes(100)),
        ("b", Does::Takes(50)),
        ("c", Does::Takes(1)),
    ];
    let (ran, outcome) = driver(&graph, &slow);
    assert_eq!((&*ran, &*outcome), ("z a b c", "[3:c 4:b]"));
    // Every branch starts from the result before the parallel node.
    let (rules, _) = run_with(&graph, &slow);
    let seen: Vec<_> = rules
        .ran
        .take()
        .into_iter()
        .map(|(_, last)| last.unwrap_or_default())
        .collect();
    assert_eq!(seen, ["", "z", "z", "a"]);
    let (_, outcome) = driver(&graph, &[("b", Does::False)]);
    assert_eq!(outcome, "![3:c 4:b]");
    // The first failure cancels the other children.
    let (ran, outcome) = driver(&graph, &[("a", Does::Takes(1000)), ("b", Does::Fails)]);
    assert_eq!((&*ran, &*outcome), ("z a b", "?node `4` failed: b throws"));
}

#[test]
fn of_children_of_which_any_will_do_the_first_is_enough() {
    let graph = graph(
        "0 BOOT\n1 PARALLEL join:\"ANY\"\n2 PROCESS a\n3 RUN b\n4 RUN c\n0 -> 1\n1 -> 2\n1 -> 3\n2 -> 4",
        Compat::None,
    );
    let (ran, outcome) = driver(&graph, &[("a", Does::Takes(100)), ("b", Does::Takes(10))]);
    assert_eq!((&*ran, &*outcome), ("a b", "b"));
    let (ran, outcome) = driver(&graph, &[("a", Does::Takes(100)), ("b", Does::Fails)]);
    assert_eq!((&*ran, &*outcome), ("a b c", "c"));
    let (_, outcome) = driver(&graph, &[("a", Does::False), ("b", Does::False)]);
    assert_eq!(outcome, "![2:a 3:b]");
    let (_, outcome) = driver(&graph, &[("a", Does::False), ("b", Does::Fails)]);
    assert_eq!(outcome, "?node `3` failed: b throws");
}

#[test]
fn a_loop_goes_on_for_each_item_until_one_is_false() {
    let text =
        |over: &str| format!("0 BOOT\n1 LOOP over:\"{over}\"\n2 PROCESS a\n3 RUN b\n0 -> 1\n1 -> 2\n2 -> 3");
    let looped = |over: &str, does: &[(&'static str, Does)]| driver(&graph(&text(over), Compat::None), does);
    assert_eq!(looped("x,y", &[]), ("a b a b".into(), "[0:b(x) 1:b(y)]".into()));
    assert_eq!(
        looped("x,y", &[("a", Does::False)]),
        ("a".into(), "![0:a(x)]".into())
    );
    assert_eq!(looped("empty", &[]), (String::new(), "[]".into()));
    assert_eq!(
        looped("nothing", &[]),
        (String::new(), "?node `1` failed: no list".into())
    );
    let many = vec!["x"; 10_001].join(",");
    assert_eq!(
        looped(&many, &[]),
        (
            String::new(),
            "?node `1` failed: its list has 10001 items, at most 10000".into()
        )
    );
    // The replacement for a whole loop sees no item.
    let caught = "0 BOOT\n1 FAILBACK f\n2 LOOP over:\"x,y\"\n3 RUN a\n0 -> 1\n1 -> 2\n2 -> 3";
    let caught = driver(&graph(caught, Compat::None), &[("a", Does::Fails)]);
    assert_eq!(caught, ("a f".into(), "f".into()));
    let nested = "0 BOOT\n1 LOOP over:\"x,y\"\n2 LOOP over:\"1,2\"\n3 RUN a\n0 -> 1\n1 -> 2\n2 -> 3";
    let (_, outcome) = driver(&graph(nested, Compat::None), &[]);
    assert_eq!(outcome, "[0:[0:a(1) 1:a(2)] 1:[0:a(1) 1:a(2)]]");
}

#[test]
fn a_graph_runs_within_another_and_not_without_end() {
    let inner = graph("0 BOOT\n1 PROCESS i\n0 -> 1", Compat::None);
    let outer = graph(
        "0 BOOT\n7 SUBFLOW workflow:\"inner\"\n8 RUN o\n0 -> 7\n7 -> 8",
        Compat::None,
    );
    assert_eq!(outer.workflows().collect::<Vec<_>>(), ["inner"]);
    let rules = |name, graph, does: &[(&'static str, Does)]| Recorded {
        graphs: [(name, std::sync::Arc::new(graph))].into(),
        does: does.iter().copied().collect(),
        ..Recorded::default()
    };
    let with = rules("inner", inner.clone(), &[]);
    let run = run_in(&outer, &with);
    assert_eq!(
        (told(&run), with.nodes.take()),
        ("o".into(), vec!["7/1".into(), "8".into()])
    );
    assert_eq!(
        run.steps.iter().map(|step| &*step.node.id).collect::<Vec<_>>(),
        ["7", "7/1", "8"]
    );
    assert_eq!(with.ran.take()[1].1.as_deref(), Some("i"));
    let with = rules("inner", inner, &[("i", Does::Fails)]);
    assert_eq!(told(&run_in(&outer, &with)), "?node `7/1` failed: i throws");
    let with = rules("other", outer.clone(), &[]);
    assert_eq!(
        told(&run_in(&outer, &with)),
        "?node `7` failed: there is no workflow `inner`"
    );
    let with = rules("inner", outer.clone(), &[]);
    let right = format!(
        "?node `{}` failed: workflow `inner` would run within 10 others",
        ["7"; 10].join("/")
    );
    assert_eq!(told(&run_in(&outer, &with)), right);
}

#[test]
fn what_is_tried_again_begins_where_it_began() {
    let text = "0 BOOT\n1 PROCESS z\n2 RETRY attempts:3 delayMs:1000\n3 PROCESS a\n4 RUN b\n0 -> 1\n1 -> 2\n2 -> 3\n3 -> 4";
    let graph = graph(text, Compat::None);
    let (rules, run) = run_with(&graph, &[("b", Does::FailsAtFirst(2))]);
    assert_eq!(told(&run), "b");
    let seen: Vec<_> = rules
        .ran
        .take()
        .into_iter()
        .map(|(rule, last)| format!("{rule}<{}", last.unwrap_or_default()))
        .collect();
    assert_eq!(seen, ["z<", "a<z", "b<a", "a<z", "b<a", "a<z", "b<a"]);
    let (ran, outcome) = driver(&graph, &[("b", Does::FailsAtFirst(3))]);
    assert_eq!(
        (&*ran, &*outcome),
        ("z a b a b a b", "?node `4` failed: b throws")
    );
    // A false outcome is a result, not a failure.
    let (ran, outcome) = driver(&graph, &[("b", Does::False)]);
    assert_eq!((&*ran, &*outcome), ("z a b", "!b"));
}

#[test]
fn a_rule_that_takes_too_long_is_given_up_and_something_may_stand_in_for_it() {
    let text = |more: &str| {
        format!(
            "0 BOOT\n1 PROCESS a timeoutMs:50{more}\n2 DELAY delayMs:5000\n3 RUN b\n0 -> 1\n1 -> 2\n2 -> 3"
        )
    };
    let late = [("a", Does::Takes(51))];
    let run = |more: &str, does: &[(&'static str, Does)]| driver(&graph(&text(more), Compat::None), does);
    assert_eq!(run("", &[("a", Does::Takes(49))]), ("a b".into(), "b".into()));
    assert_eq!(
        run("", &late),
        (
            "a".into(),
            "?node `1` failed: its rule is not over after 50ms (timeoutMs)".into()
        )
    );
    let stands_in = r#" fallback:{"state":false,"valueMap":{"x":1}}"#;
    assert_eq!(run(stands_in, &late), ("a".into(), r#"!{"x":1}"#.into()));
    assert_eq!(
        run(r#" fallback:{"state":true}"#, &[("a", Does::Fails)]),
        ("a b".into(), "b".into())
    );
}

/// Executor threads have a stack of 2 MB, of which scripts may use half.
#[test]
fn a_way_through_many_graphs_ends_before_the_stack_does() {
    let ended = std::thread::Builder::new().stack_size(1 << 20).spawn(|| {
        let mut text = String::from("0 BOOT\n");
        text.extend((1..150).map(|node| format!("{node} PROCESS i\n")));
        text += "150 SUBFLOW workflow:\"inner\"\n";
        text.extend((0..150).map(|node| format!("{node} -> {}\n", node + 1)));
        let outer = graph(text.trim_end(), Compat::None);
        let with = Recorded {
            graphs: [("inner", std::sync::Arc::new(outer.clone()))].into(),
            ..Recorded::default()
        };
        told(&run_in(&outer, &with))
    });
    assert_eq!(
        ended.unwrap().join().unwrap(),
        "?node `150/150/101` failed: more than 400 nodes are before it"
    );
}

#[test]
fn a_decision_within_a_graph_is_made_by_those_who_run_the_rules() {
    let text = "0 BOOT\n1 PROCESS a\n2 SUBFLOW workflow:\"decision\"\n3 RUN b\n0 -> 1\n1 -> 2\n2 -> 3";
    let graph = graph(text, Compat::None);
    let rules = Recorded::default();
    assert_eq!(told(&run_in(&graph, &rules)), "b");
    let seen = [("a", None), ("decision", Some("a")), ("b", Some("decision"))];
    let seen = seen.map(|(rule, last)| (rule.to_owned(), last.map(str::to_owned)));
    assert_eq!(*rules.ran.borrow(), seen);
    let rules = Recorded {
        does: [("decision", Does::Fails)].into(),
        ..Recorded::default()
    };
    let error = run_in(&graph, &rules).outcome.unwrap_err();
    assert_eq!(error.to_string(), "node `2` failed: decision throws");
}
