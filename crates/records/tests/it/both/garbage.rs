//! Invalid statements: any input gives an answer, or an error with a position.

use forebay_records::RecordsError;

use super::house::{House, NOW_MS};

const SEEDS: [&str; 14] = [
    r#"{"rid":"q1","where":["EQ","name","'Pete"],"filter":["NOT",["GT","age",21]],"select":{"id":"$ref","data":"$"}}"#,
    r#"{"where":["BETWEEN","a.\"b c\".0",1e9,2017,false],"sort":"-a","unique":"b","page":[10,0]}"#,
    r#"{"where":"000000000000000b","at":"lines.*","update":{"a":[1,{"b":"\u00e9\ud83d\ude00"}]},"limit":3}"#,
    r#"{"explain":true,"where":["AND",["IN","tags.*",1,2],["REGEX","x","^a[b-c]*$"]],"cursor":""}"#,
    r#"{"insert":{"kind":"Article","title":"X"},"where":["HAS","title"]}"#,
    "WHERE OR(EQ(name 'Pete') EQ(name \"Makie\")) FILTER NOT(GTE(age 21)) SELECT {\"id\":$REF,\"top\":$} LIMIT 3",
    "RID 'it''s' WHERE BETWEEN(at 2017-01-05T15:04:33.123Z 2018-01-05T15:04:33+02:00 true false) SORT -at",
    "where 000000000000000b update {\"a\": [1, 2.5e-3, null]} at a.\"b c\".*",
    "EXPLAIN WHERE AND(IN(u 6ba7b810-9dad-11d1-80b4-00c04fd430c8 'x') LT(n -7)) UNIQUE u PAGE 10 2",
    "insert { \"name\": \"Pete\", \"age\": 63 }",
    "WHERE HAS(x) AT lines.* UPDATE {\"x\":[2,3]} LIMIT 9",
    "WHERE EQ(name 'Pete') UPDATE {\"kind\":\"Other\",\"name\":\"Pete\"} LIMIT 0",
    "WHERE HAS(**) AT ** DELETE LIMIT 0",
    "SELECT [$root.a $rid 'x' {\"a\":b.*}] CURSOR '41006279005b'",
];

/// Deterministic pseudo-random numbers (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % end.max(1)
    }
}

fn mutated(numbers: &mut Numbers) -> Vec<u8> {
    let mut text = SEEDS[numbers.below(SEEDS.len())].as_bytes().to_vec();
    for _ in 0..=numbers.below(6) {
        let at = numbers.below(text.len() + 1);
        match numbers.below(6) {
            0 => text.truncate(at),
            1 => {
                let other = SEEDS[numbers.below(SEEDS.len())].as_bytes();
                let start = numbers.below(other.len());
                let piece = &other[start..(start + numbers.below(20)).min(other.len())];
                text.splice(at..at, piece.iter().copied());
            }
            2 => text.insert(at, b"\"'\\(){}[],:.$*-0 \n\0\xff\xc3"[numbers.below(21)]),
            3 if !text.is_empty() => {
                text.remove(at.min(text.len() - 1));
            }
            4 if !text.is_empty() => {
                let at = at.min(text.len() - 1);
                text[at] ^= 1 << numbers.below(8);
            }
            _ => {
                let end = (at + numbers.below(30)).min(text.len());
                let piece: Vec<u8> = text[at.min(end)..end].to_vec();
                text.splice(at..at, piece);
            }
        }
    }
    text
}

#[test]
fn no_statement_does_more_than_fail() {
    let house = House::new();
    house.index("by_name", "Record", &["name"], false);
    for n in 0..5 {
        house.create(&format!(
            r#"{{"name":"Pete","age":{n},"a":{{"b c":[1,2]}},"tags":[1,2],"lines":[{{"x":1}}]}}"#
        ));
    }
    house.expire("Record", Some(2), NOW_MS);
    let mut numbers = Numbers(0x5eed);
    let (mut answers, mut errors) = (0, 0);
    for _ in 0..20_000 {
        let text = mutated(&mut numbers);
        let text = String::from_utf8_lossy(&text).into_owned();
        match house.try_tql(&text) {
            Ok(answer) => {
                answers += 1;
                let answer: Result<serde_json::Value, _> = serde_json::from_str(&answer);
                assert_eq!(answer.unwrap()["code"], 0, "{text}");
            }
            Err(RecordsError::Statement(error)) => {
                errors += 1;
                let lines: Vec<&str> = text.split('\n').collect();
                assert!(
                    (1..=lines.len()).contains(&error.position.line),
                    "{text}: {error}"
                );
                let line = lines[error.position.line - 1].chars().count();
                assert!((1..=line + 1).contains(&error.position.column), "{text}: {error}");
            }
            Err(error) => assert!(error.is_input(), "{text}: {error}"),
        }
    }
    assert!(
        answers > 500 && errors > 1000,
        "{answers} answers, {errors} errors"
    );
    for bytes in [&b"\xff"[..], b"WHERE \xc3", b"{\"where\":\"\xed\xa0\x80\"}"] {
        let read = forebay_records::tql::Statement::read(bytes, &house.settings);
        assert!(read.is_err_and(|error| error.what == "expected UTF-8"));
    }
}
