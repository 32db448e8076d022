use proptest::prelude::*;

use super::{DEPTH_MAX, canonical, children, find, string};

fn text(input: &str) -> String {
    String::from_utf8(canonical(input.as_bytes()).unwrap()).unwrap()
}

#[test]
fn the_canonical_form_is_unique_and_loses_nothing() {
    for (input, expected) in [
        (" { \"b\" : 1 , \"a\" : [ ] } ", "{\"a\":[],\"b\":1}"),
        ("{\"a\":1,\"b\":2,\"a\":3}", "{\"a\":3,\"b\":2}"),
        (
            "{\"10\":1,\"9\":2,\"x\":3,\"-1\":4,\"01\":5}",
            "{\"-1\":4,\"9\":2,\"10\":1,\"01\":5,\"x\":3}",
        ),
        ("{}", "{}"),
        ("[]", "[]"),
        ("1.50", "1.50"),
        ("-0", "-0"),
        ("1E5", "1E5"),
        ("12345678901234567890123", "12345678901234567890123"),
        ("\"\\u00e9\\/\\u0001\\n\"", "\"é/\\u0001\\n\""),
        ("\"\\ud83d\\ude00\"", "\"😀\""),
        ("\"007\"", "\"007\""),
        ("\"\"", "\"\""),
        ("{\"\":null,\"__proto__\":true}", "{\"\":null,\"__proto__\":true}"),
    ] {
        assert_eq!(text(input), expected);
        assert_eq!(text(expected), expected);
    }
}

#[test]
fn what_is_no_json_is_refused_where_it_is_not() {
    for (input, offset, reason) in [
        ("", 0, "a value is missing"),
        ("{", 1, "the name of a member is missing"),
        ("{\"a\":1,}", 7, "the name of a member is missing"),
        ("[1,]", 3, "no JSON value begins like this"),
        ("[1 2]", 3, "`,` or `]` is missing"),
        ("01", 1, "a number begins with 0"),
        ("1.", 2, "a digit is missing"),
        ("-", 1, "a digit is missing"),
        ("1e+", 3, "a digit is missing"),
        ("nul", 0, "no JSON value begins like this"),
        ("\"a", 2, "a string has no end"),
        ("\"a\\", 3, "a string has no end"),
        ("\"\u{1}\"", 1, "a control character in a string"),
        ("\"\\x\"", 1, "an unknown escape"),
        ("\"\\u12\"", 1, "`\\u` without four hex digits"),
        ("\"x\\ud83d\"", 2, "half of a surrogate pair"),
        ("\"\\ude00\"", 1, "half of a surrogate pair"),
        ("1 1", 2, "something after the value"),
        ("NaN", 0, "no JSON value begins like this"),
    ] {
        let error = canonical(input.as_bytes()).unwrap_err();
        assert_eq!((error.offset, error.reason), (offset, reason), "{input}");
    }
    assert_eq!(canonical(b"\"\xff\"").unwrap_err().reason, "invalid UTF-8");
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(canonical(deep(DEPTH_MAX).as_bytes()).is_ok());
    assert_eq!(
        canonical(deep(DEPTH_MAX + 1).as_bytes()).unwrap_err().offset,
        DEPTH_MAX
    );
    assert!(canonical("[".repeat(1 << 20).as_bytes()).is_err());
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            proptest::collection::btree_map("[a-c0-9\"\\\\{}]{0,3}", inner, 0..6)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_means_the_same_in_canonical_form(value in value()) {
        let kept = canonical(serde_json::to_string_pretty(&value).unwrap().as_bytes()).unwrap();
        prop_assert_eq!(&serde_json::from_slice::<serde_json::Value>(&kept).unwrap(), &value);
        prop_assert_eq!(&canonical(&kept).unwrap(), &kept);
        // Every child is found by name, and in order.
        let walked: Vec<_> = children(&kept).map(|child| (child.name.into_owned(), child.text)).collect();
        let count = value.as_array().map_or(0, Vec::len) + value.as_object().map_or(0, serde_json::Map::len);
        prop_assert_eq!(walked.len(), count);
        for (name, child) in walked {
            prop_assert_eq!(find(&kept, &name), Some(child));
            let expected = if value.is_array() { &value[name.parse::<usize>().unwrap()] } else { &value[&name] };
            prop_assert_eq!(&serde_json::from_slice::<serde_json::Value>(child).unwrap(), expected);
        }
        prop_assert_eq!(find(&kept, "not there"), None);
    }

    #[test]
    fn garbage_is_refused_and_never_walked_out_of(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let _ = canonical(&bytes);
        let _ = children(&bytes).count();
        let _ = find(&bytes, "a");
    }

    #[test]
    fn a_string_is_written_as_json_reads_it(content in any::<String>()) {
        prop_assert_eq!(serde_json::from_slice::<String>(&string(&content)).unwrap(), content);
    }
}
