use std::cmp::Ordering;

use proptest::prelude::*;

use super::{Key, KeyError, Subscript, collate, decode, within};

fn key(global: &str, subscripts: &[&str]) -> Key {
    let mut key = Key::global(global).unwrap();
    for subscript in subscripts {
        key.push(subscript).unwrap();
    }
    key
}

#[test]
fn subscripts_sort_as_in_m() {
    let sorted = [
        "-100000000000000000000000000000000000000000000000",
        "-9999",
        "-1234.5",
        "-1234",
        "-100",
        "-99",
        "-10",
        "-9.5",
        "-9",
        "-1",
        "-.5",
        "-.05",
        "0",
        ".000001",
        ".05",
        ".5",
        ".51",
        "1",
        "1.5",
        "2",
        "9",
        "10",
        "11",
        "99",
        "100",
        "101",
        "999999999999999999",
        "1000000000000000000",
        "123456789012345678",
    ];
    // The first is out of the range of numbers, so it is a string; the last was appended to be moved.
    let mut numbers: Vec<&str> = sorted[1..].to_vec();
    numbers.sort_by(|left, right| collate(left, right));
    let place = numbers
        .iter()
        .position(|text| *text == "123456789012345678")
        .unwrap();
    assert_eq!(
        numbers[place - 1..place + 2],
        ["101", "123456789012345678", "999999999999999999"]
    );
    numbers.remove(place);
    assert_eq!(numbers, sorted[1..sorted.len() - 1]);

    let strings = [
        "", "-", "-0", "-01", "--1", "0.5", "00", "007", "01", "1.0", "1.", "1E5", "1e5", " 1", "A", "a",
        "ab", "é",
    ];
    for string in strings {
        assert!(!Subscript::new(string).is_number(), "{string}");
        for number in &numbers {
            assert_eq!(collate(number, string), Ordering::Less, "{number} and {string}");
        }
        for other in strings {
            assert_eq!(collate(string, other), string.cmp(other), "{string} and {other}");
        }
    }
    assert!(!Subscript::new(sorted[0]).is_number());
}

#[test]
fn a_number_and_its_text_are_the_same_subscript() {
    for (number, text) in [
        (1.0, "1"),
        (0.5, ".5"),
        (-0.25, "-.25"),
        (-0.0, "0"),
        (1e21, "1000000000000000000000"),
        (1e-7, ".0000001"),
        (1_234_567.891, "1234567.891"),
    ] {
        let subscript = Subscript::number(number).unwrap();
        assert_eq!(subscript.text(), text);
        assert!(subscript.is_number());
    }
    let mut one = Key::global("G").unwrap();
    one.push_integer(1).unwrap();
    assert_eq!(one, key("G", &["1"]));
    assert!(matches!(
        Subscript::number(f64::NAN),
        Err(KeyError::NotANumber { .. })
    ));
}

#[test]
fn a_path_shows_as_in_m() {
    assert_eq!(
        key("Person", &["data", "1", "a\"b"]).to_string(),
        "^Person(\"data\",1,\"a\"\"b\")"
    );
    assert_eq!(key("Person", &[]).to_string(), "^Person");
}

#[test]
fn what_cannot_be_a_path_is_refused() {
    assert_eq!(Key::global(""), Err(KeyError::EmptyGlobal));
    assert_eq!(Key::global("a b"), Err(KeyError::GlobalCharacter { found: ' ' }));
    assert!(matches!(
        Key::global(&"g".repeat(65)),
        Err(KeyError::GlobalTooLong { .. })
    ));
    let mut long = Key::global("G").unwrap();
    assert!(matches!(
        long.push(&"x".repeat(1900)),
        Err(KeyError::TooLong { .. })
    ));
    let mut deep = Key::global("G").unwrap();
    for _ in 0..super::SUBSCRIPTS_MAX {
        deep.push("1").unwrap();
    }
    assert_eq!(deep.push("1"), Err(KeyError::TooDeep));
}

#[test]
fn a_name_with_nul_is_no_child_of_the_name_before_it() {
    let (short, long) = (key("G", &["a"]), key("G", &["a\0b"]));
    assert!(!within(long.as_bytes(), short.as_bytes()));
    assert!(within(key("G", &["a", "x"]).as_bytes(), short.as_bytes()));
    assert!(key("G", &["a", "x"]) < long);
}

/// The order that the encoding promises, computed independently: numbers by value, before strings by bytes.
fn told_otherwise(left: &str, right: &str) -> Ordering {
    let value = |text: &str| {
        Subscript::new(text)
            .is_number()
            .then(|| text.parse::<f64>().unwrap())
    };
    match (value(left), value(right)) {
        (Some(left), Some(right)) => left.total_cmp(&right),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        (-200_i64..200).prop_map(|number| number.to_string()),
        any::<i32>().prop_map(|number| number.to_string()),
        (-3000_i32..3000, 1_u8..4).prop_map(|(number, places)| {
            let text = format!("{}", f64::from(number) / 10_f64.powi(places.into()));
            text.replacen(
                "0.",
                ".",
                usize::from(number.unsigned_abs() < 10_u32.pow(places.into())),
            )
        }),
        "[-.0-9]{0,6}",
        "[a\0é]{0,4}",
        any::<String>().prop_map(|text| text.chars().take(40).collect()),
    ]
}

proptest! {
    #[test]
    fn damaged_paths_are_shown_somehow(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let key = Key::from_encoded(&bytes);
        let _ = (key.to_string(), key.parent(), key.texts().count());
        let prefixed = Key::from_encoded(&[&b"G\0"[..], &bytes].concat());
        let _ = (prefixed.to_string(), prefixed.parent(), prefixed.texts().count());
    }

    #[test]
    fn bytes_are_a_path_only_where_a_path_has_them(
        names in proptest::collection::vec(name(), 0..4),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let whole = key("G", &names.iter().map(String::as_str).collect::<Vec<_>>());
        prop_assert_eq!(Key::from_stored(whole.as_bytes()), Some(whole.clone()));
        let mut bytes = whole.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        for damaged in [&bytes[..], &bytes[..at], &whole.as_bytes()[..at]] {
            let Some(found) = Key::from_stored(damaged) else { continue };
            let again = found.texts().try_fold(Key::global(found.global_name()).unwrap(), |key, text| key.child(&text));
            prop_assert_eq!(again.unwrap(), Key::from_encoded(damaged));
        }
        let endless = [whole.as_bytes(), b"\xE0a"].concat();
        prop_assert_eq!(Key::from_stored(&endless), None);
    }

    #[test]
    fn paths_sort_as_their_subscripts_do(
        left in proptest::collection::vec(name(), 0..4),
        right in proptest::collection::vec(name(), 0..4),
    ) {
        let make = |names: &[String]| key("G", &names.iter().map(String::as_str).collect::<Vec<_>>());
        let (left_key, right_key) = (make(&left), make(&right));
        let expected = left
            .iter()
            .zip(&right)
            .map(|(left, right)| told_otherwise(left, right))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| left.len().cmp(&right.len()));
        prop_assert_eq!(left_key.cmp(&right_key), expected);
        prop_assert_eq!(left_key.texts().collect::<Vec<_>>(), left.clone());
        let below = left.len() >= right.len() && left[..right.len()] == right[..];
        prop_assert_eq!(within(left_key.as_bytes(), right_key.as_bytes()), below);
        prop_assert_eq!(left_key.parent().map(|parent| parent.texts().count()), left.len().checked_sub(1));
        for (subscript, text) in left_key.subscripts().zip(&left) {
            prop_assert_eq!(&decode(subscript), text);
        }
    }
}
