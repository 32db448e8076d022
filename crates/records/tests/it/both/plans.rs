//! Access paths that statements choose.

use super::house::House;

fn plan(house: &House, statement: &str) -> serde_json::Value {
    let answer: serde_json::Value = serde_json::from_str(&house.tql(statement)).unwrap();
    answer["plan"].clone()
}

fn house() -> House {
    let house = House::new();
    house.index("by_city_age", "Person", &["address.city", "age"], false);
    house.index("by_mail", "Person", &["mail"], true);
    house.index("by_tag", "Person", &["tags.*"], false);
    house.index("by_seen", "Person", &["seen"], false);
    for n in 0..50 {
        house.create(&format!(
            r#"{{"kind":"Person","address":{{"city":"c{}"}},"age":{n},"mail":"m{n}","tags":["t{}","x"],"seen":"2020-01-{:02}T00:00:00Z"}}"#,
            n % 5,
            n % 7,
            n % 28 + 1,
        ));
    }
    house.create(r#"{"kind":"Other","mail":"m1"}"#);
    house
}

#[test]
fn explain_tells_the_index_and_what_is_filtered_afterwards() {
    let house = house();
    for (condition, index, filtered, examined) in [
        ("EQ(mail 'm7')", "by_mail", "[]", 1),
        ("AND(EQ(address.city 'c1') GT(age 30))", "by_city_age", "[]", 4),
        (
            "AND(EQ(address.city 'c1') GT(age 30) LT(age 40) HAS(tags))",
            "by_city_age",
            "[\"HAS(tags)\"]",
            2,
        ),
        ("AND(EQ(address.city 'c1') IN(age 1 6))", "by_city_age", "[]", 2),
        ("EQ(tags.* 't0')", "by_tag", "[]", 8),
        ("AND(EQ(tags.* 't0') EQ(age 7))", "by_tag", "[\"EQ(age 7)\"]", 8),
        (
            "BETWEEN(seen 2020-01-05T00:00:00Z 2020-01-06T00:00:00Z)",
            "by_seen",
            "[]",
            8,
        ),
        (
            "EQ(address.city 'c1')",
            "",
            "[\"EQ(address.city \\\"c1\\\")\"]",
            50,
        ),
        ("REGEX(mail 'm1')", "", "[\"REGEX(mail \\\"m1\\\")\"]", 50),
    ] {
        let statement = format!("EXPLAIN WHERE EQ(kind 'Person') FILTER {condition}");
        let plan = plan(&house, &statement);
        let kind = &plan["kinds"][0];
        assert_eq!(plan["kinds"].as_array().unwrap().len(), 1, "{plan}");
        assert_eq!(
            kind["lookups"][0]["index"].as_str().unwrap_or_default(),
            index,
            "{condition}: {plan}"
        );
        assert_eq!(kind["filtered"].to_string(), filtered, "{condition}");
        assert_eq!(plan["examined"], examined, "{condition}: {plan}");
    }
}

#[test]
fn an_or_is_planned_when_each_of_its_arms_is() {
    let house = house();
    let statement =
        "EXPLAIN WHERE AND(EQ(kind 'Person') OR(EQ(mail 'm1') IN(mail 'm2' 'm3') EQ(tags.* 't3')))";
    let whole = plan(&house, statement);
    assert_eq!(whole["kinds"][0]["lookups_total"], 4, "{whole}");
    let half = plan(
        &house,
        "EXPLAIN WHERE AND(EQ(kind 'Person') OR(EQ(mail 'm1') EQ(age 3)))",
    );
    assert_eq!(half["kinds"][0]["by"], "all records", "{half}");
}

#[test]
fn a_plan_asks_indexes_no_more_than_a_thousand_questions() {
    let house = house();
    let values: Vec<String> = (0..600).map(|n| format!("'m{n}'")).collect();
    let one = format!("IN(mail {})", values.join(" "));
    for (arms, expected) in [
        (vec![one.as_str()], Some(600)),
        (vec![one.as_str(), &one], None),
        (vec![one.as_str(), "GT(seen 2020-01-27T00:00:00Z)"], Some(601)),
    ] {
        let statement = format!("EXPLAIN WHERE AND(EQ(kind 'Person') OR({}))", arms.join(" "));
        let plan = plan(&house, &statement);
        let total = plan["kinds"][0]["lookups_total"].as_u64();
        assert_eq!(total, expected, "{}", arms.len());
    }
}

#[test]
fn a_statement_without_a_kind_is_planned_for_each() {
    let house = house();
    let plan = plan(&house, "EXPLAIN WHERE EQ(mail 'm1')");
    let ways: Vec<_> = plan["kinds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| kind["by"].as_str().unwrap())
        .collect();
    assert_eq!(ways, ["all records", "index"], "{plan}");
    let by_reference = self::plan(&house, "EXPLAIN WHERE 3");
    assert_eq!(by_reference["kinds"][0]["by"], "reference");
    assert_eq!(by_reference["examined"], 1);
}

#[test]
fn explain_changes_nothing() {
    let house = house();
    let plan = plan(&house, "EXPLAIN WHERE EQ(mail 'm1') DELETE");
    assert_eq!(plan["more"], false);
    assert!(house.tql("WHERE EQ(mail 'm1') SELECT $ref").contains("[51,2]"));
}
