//! Random operations compared with a plain tree in memory, in every physical layout.

use std::collections::BTreeMap;

use forebay_store::{
    Defined, Document, Durability, Key, Options, Range, Read, Store, StoreError, Subscript, Transaction,
};
use proptest::prelude::*;
use serde_json::Value;

use super::Home;

/// Straightforward implementation of the documented behaviour.
#[derive(Clone, Debug, Default, PartialEq)]
struct Node {
    /// A scalar, `{}` or `[]`, as JSON.
    value: Option<String>,
    array: bool,
    children: BTreeMap<Subscript, Node>,
}

impl Node {
    fn exists(&self) -> bool {
        self.value.is_some() || !self.children.is_empty()
    }

    fn at(&self, path: &[String]) -> Option<&Node> {
        match path.split_first() {
            None => Some(self).filter(|node| node.exists()),
            Some((first, rest)) => self.children.get(&Subscript::new(first))?.at(rest),
        }
    }

    fn of(value: &Value) -> Self {
        let children: Vec<(String, &Value)> = match value {
            Value::Array(elements) => (0..)
                .map(|index: usize| index.to_string())
                .zip(elements)
                .collect(),
            Value::Object(members) => members
                .iter()
                .map(|(name, member)| (name.clone(), member))
                .collect(),
            _ => Vec::new(),
        };
        if children.is_empty() {
            return Self {
                value: Some(value.to_string()),
                ..Self::default()
            };
        }
        Self {
            value: None,
            array: value.is_array(),
            children: children
                .into_iter()
                .map(|(name, child)| (Subscript::new(&name), Self::of(child)))
                .collect(),
        }
    }

    fn is_dense(&self) -> bool {
        (0..self.children.len()).all(|index| self.children.contains_key(&Subscript::new(&index.to_string())))
    }

    /// Changes the node at a path; creates and removes containers above it as needed.
    fn change(&mut self, path: &[String], change: &mut dyn FnMut(&mut Node)) {
        let Some((first, rest)) = path.split_first() else {
            return change(self);
        };
        let name = Subscript::new(first);
        let mut child = self.children.remove(&name).unwrap_or_default();
        child.change(rest, change);
        if child.exists() {
            if self.children.is_empty() {
                // `{}` or `[]` becomes a container with children.
                self.array |= self.value.as_deref() == Some("[]");
                if matches!(self.value.as_deref(), Some("{}" | "[]")) {
                    self.value = None;
                }
            }
            self.children.insert(name, child);
        }
        self.array &= !self.children.is_empty() && self.is_dense();
    }

    fn document(&self) -> String {
        self.document_to(usize::MAX)
    }

    /// Containers nested deeper than `depth` are empty.
    fn document_to(&self, depth: usize) -> String {
        if self.children.is_empty() {
            return self.value.clone().unwrap();
        }
        let Some(below) = depth.checked_sub(1) else {
            return if self.array { "[]" } else { "{}" }.to_owned();
        };
        let children = self.children.iter().map(|(name, child)| {
            if self.array {
                child.document_to(below)
            } else {
                format!("{}:{}", Value::String(name.text()), child.document_to(below))
            }
        });
        let children = children.collect::<Vec<_>>().join(",");
        if self.array {
            format!("[{children}]")
        } else {
            format!("{{{children}}}")
        }
    }

    fn values(&self, path: &Key, out: &mut Vec<(Key, String)>) {
        if let Some(value) = &self.value {
            out.push((path.clone(), value.clone()));
        }
        for (name, child) in &self.children {
            child.values(&path.child(&name.text()).unwrap(), out);
        }
    }

    fn merge(&mut self, other: &Node) {
        if !self.exists() {
            *self = other.clone();
            return;
        }
        if let Some(value) = other
            .value
            .as_ref()
            .filter(|value| !matches!(value.as_str(), "{}" | "[]"))
        {
            if matches!(self.value.as_deref(), Some("{}" | "[]")) || self.children.is_empty() {
                self.array = false;
            }
            self.value = Some(value.clone());
        }
        for (name, child) in &other.children {
            self.change(&[name.text()], &mut |mine| mine.merge(child));
        }
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Set(Vec<String>, Value),
    Put(Vec<String>, Value),
    LayOver(Vec<String>, Value),
    Kill(Vec<String>),
    Increment(Vec<String>, i32),
    Merge(Vec<String>, Vec<String>),
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        24 => (0..3).prop_map(|index: i32| index.to_string()),
        6 => Just("a".to_owned()),
        1 => Just("a\0".to_owned()),
        1 => Just(String::new()),
        1 => Just("-.5".to_owned()),
        1 => Just("é\"\\".to_owned()),
    ]
}

/// Mostly short paths, so that operations affect each other.
fn path() -> impl Strategy<Value = Vec<String>> {
    let of = |length: std::ops::Range<usize>| proptest::collection::vec(name(), length);
    prop_oneof![1 => of(0..1), 8 => of(1..3), 2 => of(3..5)]
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-5..5).prop_map(Value::from),
        "[xé\"]{0,30}".prop_map(Value::from),
        Just(Value::Array(Vec::new())),
        Just(Value::Object(serde_json::Map::new())),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => (path(), document()).prop_map(|(path, value)| Operation::Set(path, value)),
        3 => (path(), document()).prop_map(|(path, value)| Operation::Put(path, value)),
        2 => (path(), document()).prop_map(|(path, value)| Operation::LayOver(path, value)),
        3 => path().prop_map(Operation::Kill),
        1 => (path(), -3..3).prop_map(|(path, by)| Operation::Increment(path, by)),
        2 => (path(), path()).prop_map(|(to, from)| Operation::Merge(to, from)),
    ]
}

fn key(path: &[String]) -> Key {
    let mut key = Key::global("G").unwrap();
    for name in path {
        key.push(name).unwrap();
    }
    key
}

impl Operation {
    fn on_model(&self, model: &mut Node) {
        match self {
            Self::Set(path, value) if !value.is_array() && !value.is_object() => {
                model.change(path, &mut |node| {
                    node.value = Some(value.to_string());
                    node.array &= !node.children.is_empty();
                });
            }
            Self::Set(path, value) | Self::Put(path, value) => {
                model.change(path, &mut |node| *node = Node::of(value));
            }
            Self::LayOver(path, value) => model.change(path, &mut |node| node.merge(&Node::of(value))),
            Self::Kill(path) => model.change(path, &mut |node| *node = Node::default()),
            Self::Increment(path, by) => {
                let found = model
                    .at(path)
                    .and_then(|node| node.value.clone())
                    .unwrap_or_else(|| "0".into());
                if let Ok(found) = found.parse::<i32>() {
                    model.change(path, &mut |node| node.value = Some((found + by).to_string()));
                }
            }
            Self::Merge(to, from) if to.starts_with(from) || from.starts_with(to) => {}
            Self::Merge(to, from) => {
                if let Some(source) = model.at(from).cloned() {
                    model.change(to, &mut |node| node.merge(&source));
                }
            }
        }
    }

    fn on_store(&self, transaction: &mut Transaction) -> Result<(), StoreError> {
        match self {
            Self::Set(path, value) => transaction.set(&key(path), value.to_string().as_bytes()),
            Self::Put(path, value) => transaction.put(&key(path), value.to_string().as_bytes()),
            Self::LayOver(path, value) => transaction.lay_over(&key(path), value.to_string().as_bytes()),
            Self::Kill(path) => transaction.kill(&key(path)).map(|_| ()),
            Self::Increment(path, by) => transaction.increment(&key(path), &by.to_string()).map(|_| ()),
            Self::Merge(to, from) => transaction.merge(&key(to), &key(from)),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A document assembled one node per step, each step with its own buffer.
fn node_by_node(store: &impl Read, key: &Key, depth: usize) -> Option<String> {
    Some(match store.document_walk(key, depth, usize::MAX).unwrap()? {
        Document::Text(whole) => text(&whole),
        Document::Nodes(mut walk) => {
            let mut parts = Vec::new();
            let mut more = true;
            while more {
                let mut part = Vec::new();
                more = walk.step(store, 1, &mut part).unwrap();
                parts.push(text(&part));
            }
            parts.concat()
        }
    })
}

/// Compares every read of every node of the model, and of some nodes that do not exist.
fn compare(store: &impl Read, model: &Node, path: &mut Vec<String>) {
    let key = key(path);
    let children: Vec<Subscript> = model.children.keys().cloned().collect();
    let walked = |range| {
        store
            .children(&key, range)
            .unwrap()
            .collect::<Result<Vec<_>, _>>()
            .unwrap()
    };
    assert_eq!(walked(Range::default()), children, "children of {key}");
    let mut backwards = walked(Range {
        reverse: true,
        ..Range::default()
    });
    backwards.reverse();
    assert_eq!(backwards, children, "children of {key}, backwards");
    let defined = Defined {
        value: model.value.is_some(),
        children: !children.is_empty(),
    };
    assert_eq!(store.defined(&key).unwrap(), defined, "defined {key}");
    assert_eq!(store.get(&key).unwrap().map(text), model.value, "value of {key}");
    let array = model.array || model.value.as_deref() == Some("[]");
    assert_eq!(store.is_array(&key).unwrap(), array, "whether {key} is an array");
    let document = model.exists().then(|| model.document());
    assert_eq!(
        store.document(&key).unwrap().map(|found| text(&found)),
        document,
        "document of {key}"
    );
    for depth in 0..6 {
        let shown = model.exists().then(|| model.document_to(depth));
        let found = node_by_node(store, &key, depth);
        assert_eq!(found, shown, "document of {key} to depth {depth}");
    }
    let mut values = Vec::new();
    model.values(&key, &mut values);
    let found = store
        .values(&key)
        .unwrap()
        .map(|found| found.map(|(key, value)| (key, text(value))));
    assert_eq!(
        found.collect::<Result<Vec<_>, _>>().unwrap(),
        values,
        "values below {key}"
    );
    for seed in ["", "0", "1", "1.5", "a", "aa", "a\0", "zz"].map(Subscript::new) {
        let next = children.iter().find(|child| **child > seed).cloned();
        assert_eq!(
            store.next(&key, Some(&seed)).unwrap(),
            next,
            "after {seed:?} in {key}"
        );
        let previous = children.iter().rev().find(|child| **child < seed).cloned();
        assert_eq!(
            store.previous(&key, Some(&seed)).unwrap(),
            previous,
            "before {seed:?} in {key}"
        );
        path.push(seed.text());
        if !model.children.contains_key(&seed) {
            assert!(!store.defined(&self::key(path)).unwrap().exists());
        }
        path.pop();
    }
    for (name, child) in &model.children {
        path.push(name.text());
        compare(store, child, path);
        path.pop();
    }
}

fn check(pack_bytes_max: usize, transactions: &[Vec<Operation>]) -> Vec<u8> {
    let folder = Home::new();
    let options = Options {
        pack_bytes_max,
        ..Options::default()
    };
    let store = Store::open(folder.path(), &options).unwrap();
    let mut model = Node::default();
    for operations in transactions {
        let mut transaction = store.begin().unwrap();
        for operation in operations {
            operation.on_model(&mut model);
            match operation.on_store(&mut transaction) {
                Ok(()) | Err(StoreError::NotANumber { .. } | StoreError::Overlap { .. }) => {}
                Err(error) => panic!("{operation:?}: {error}"),
            }
            compare(&transaction, &model, &mut Vec::new());
        }
        transaction.commit(Durability::Relaxed).unwrap();
        compare(&store.snapshot().unwrap(), &model, &mut Vec::new());
    }
    let snapshot = store.snapshot().unwrap();
    snapshot
        .document(&key(&[]))
        .unwrap()
        .unwrap_or_default()
        .into_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200 / Home::FEWER_CASES, ..ProptestConfig::default() })]

    #[test]
    fn the_store_is_the_tree_that_its_documentation_describes(
        transactions in proptest::collection::vec(proptest::collection::vec(operation(), 1..12), 1..4)
    ) {
        let whole = check(1 << 20, &transactions);
        prop_assert_eq!(&check(0, &transactions), &whole);
        prop_assert_eq!(&check(24, &transactions), &whole);
    }
}
