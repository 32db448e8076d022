//! Random strings of a shape: the part of regular expressions that says what may stand where. There is no search in it, so what only a
//! search needs (assertions, back references, laziness) is refused. Everything is bounded: `*`, `+` and `{m,}` repeat at most
//! [`REPEATS_MAX`] times more than they must, and no string is longer than [`STRING_BYTES_MAX`].

use crate::request::source::Random;

/// How often more than it must a repetition without an upper bound repeats, at most.
const REPEATS_MAX: u32 = 10;
/// Most repetitions that can be asked for.
const REPEATS_GIVEN_MAX: u32 = 1000;
/// Longest string that an expression may bring about.
const STRING_BYTES_MAX: u64 = 4096;

/// What strings look like.
#[derive(Clone, Debug)]
pub(super) struct Pattern(Node);

#[derive(Clone, Debug)]
enum Node {
    Text(Vec<u8>),
    /// Any one of these.
    Class(Box<[u8]>),
    Sequence(Vec<Self>),
    Choice(Vec<Self>),
    Repeat {
        what: Box<Self>,
        min: u32,
        max: u32,
    },
}

/// Why a text is no expression.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum Fault {
    #[error("is not followed by `}}}}`")]
    End,
    #[error("has a `{0}` that is not closed")]
    Open(char),
    #[error("has a `)` without its `(`")]
    Close,
    #[error("has nothing to repeat before its `{0}`")]
    Nothing(char),
    #[error("repeats without two numbers, the lower one first, such as {{2,5}}; at most {REPEATS_GIVEN_MAX}")]
    Numbers,
    #[error("has a class with nothing in it")]
    EmptyClass,
    #[error("has a class with more than ASCII in it; only ASCII can be in a class")]
    ClassOfOthers,
    #[error("has a range from high to low")]
    Range,
    #[error("has `\\{0}`, which is not known; accepted are \\d, \\w, \\s and escaped signs")]
    Escape(char),
    #[error("has `(?`; accepted are (...) and (?:...)")]
    Group,
    #[error("makes strings of up to {0} bytes; at most {STRING_BYTES_MAX} are accepted")]
    Long(u64),
}

impl Pattern {
    /// Reads an expression up to `}}`, with its length.
    pub(super) fn parse(text: &[u8]) -> Result<(Self, usize), Fault> {
        let mut parser = Parser { text, at: 0 };
        let node = parser.choice()?;
        let length = parser.at;
        let spaces = parser.rest().len() - parser.rest().trim_ascii_start().len();
        match &parser.rest()[spaces..] {
            [b')', ..] => Err(Fault::Close),
            [] => Err(Fault::End),
            _ if node.longest() > STRING_BYTES_MAX => Err(Fault::Long(node.longest())),
            _ => Ok((Self(node), length + spaces)),
        }
    }

    /// Appends a string.
    pub(super) fn render(&self, random: &mut Random, out: &mut Vec<u8>) {
        self.0.render(random, out);
    }
}

impl Node {
    fn render(&self, random: &mut Random, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => out.extend_from_slice(text),
            Self::Class(any) => out.push(any[random.below(any.len())]),
            Self::Sequence(nodes) => nodes.iter().for_each(|node| node.render(random, out)),
            Self::Choice(nodes) => nodes[random.below(nodes.len())].render(random, out),
            Self::Repeat { what, min, max } => {
                let times = u64::from(*min) + random.up_to(u64::from(max - min));
                (0..times).for_each(|_| what.render(random, out));
            }
        }
    }

    /// Bytes of the longest string.
    fn longest(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Class(_) => 1,
            Self::Sequence(nodes) => nodes.iter().map(Self::longest).fold(0, u64::saturating_add),
            Self::Choice(nodes) => nodes.iter().map(Self::longest).max().unwrap_or(0),
            Self::Repeat { what, max, .. } => what.longest().saturating_mul(u64::from(*max)),
        }
    }
}

/// What follows a backslash.
enum Escaped {
    Sign(u8),
    /// Any sign for which this holds.
    Class(fn(u8) -> bool),
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    fn takes(&mut self, sign: &[u8]) -> bool {
        let is_there = self.rest().starts_with(sign);
        self.at += if is_there { sign.len() } else { 0 };
        is_there
    }

    /// Whether the expression, or what stands between brackets, is over. Spaces before the end are no part of it.
    fn ends(&self) -> bool {
        let rest = self.rest();
        rest.is_empty() || rest.starts_with(b")") || rest.trim_ascii_start().starts_with(b"}}")
    }

    fn choice(&mut self) -> Result<Node, Fault> {
        let mut nodes = vec![self.sequence()?];
        while self.takes(b"|") {
            nodes.push(self.sequence()?);
        }
        Ok(if nodes.len() == 1 {
            nodes.remove(0)
        } else {
            Node::Choice(nodes)
        })
    }

    fn sequence(&mut self) -> Result<Node, Fault> {
        let mut nodes = Vec::new();
        while !self.ends() && !self.rest().starts_with(b"|") {
            // A string of a shape begins and ends with it anyway.
            if self.takes(b"^") || self.takes(b"$") {
                continue;
            }
            let node = self.one()?;
            let node = self.repeated(node)?;
            match (nodes.last_mut(), node) {
                (Some(Node::Text(text)), Node::Text(more)) => text.extend_from_slice(&more),
                (_, node) => nodes.push(node),
            }
        }
        Ok(Node::Sequence(nodes))
    }

    fn one(&mut self) -> Result<Node, Fault> {
        let sign = self.rest()[0];
        match sign {
            b'(' => {
                self.at += 1;
                if self.takes(b"?") && !self.takes(b":") {
                    return Err(Fault::Group);
                }
                let inner = self.choice()?;
                if self.takes(b")") {
                    Ok(inner)
                } else {
                    Err(Fault::Open('('))
                }
            }
            b'[' => {
                self.at += 1;
                self.class()
            }
            b'.' => {
                self.at += 1;
                Ok(class(|byte| byte == b' ' || byte.is_ascii_graphic()))
            }
            b'*' | b'+' | b'?' | b'{' => Err(Fault::Nothing(char::from(sign))),
            b'\\' => {
                self.at += 1;
                match self.escaped()? {
                    Escaped::Sign(byte) => Ok(Node::Text(vec![byte])),
                    Escaped::Class(of) => Ok(class(of)),
                }
            }
            // A letter of several bytes is repeated as one.
            _ => {
                let length = 1 + self.rest()[1..]
                    .iter()
                    .take_while(|byte| (**byte & 0xc0) == 0x80)
                    .count();
                let text = self.rest()[..length].to_vec();
                self.at += length;
                Ok(Node::Text(text))
            }
        }
    }

    /// Reads what follows a backslash.
    fn escaped(&mut self) -> Result<Escaped, Fault> {
        let sign = *self.rest().first().ok_or(Fault::Open('\\'))?;
        self.at += 1;
        match sign {
            b'd' => Ok(Escaped::Class(|byte| byte.is_ascii_digit())),
            b'w' => Ok(Escaped::Class(|byte| {
                byte.is_ascii_alphanumeric() || byte == b'_'
            })),
            b's' => Ok(Escaped::Sign(b' ')),
            _ if sign.is_ascii_punctuation() || sign == b' ' => Ok(Escaped::Sign(sign)),
            _ => Err(Fault::Escape(char::from(sign))),
        }
    }

    fn class(&mut self) -> Result<Node, Fault> {
        let negated = self.takes(b"^");
        let mut held = [false; 128];
        let mut first = true;
        loop {
            let sign = *self.rest().first().ok_or(Fault::Open('['))?;
            self.at += 1;
            let low = match sign {
                b']' if !first => break,
                b'\\' => match self.escaped()? {
                    Escaped::Sign(byte) => byte,
                    Escaped::Class(of) => {
                        (0..128)
                            .filter(|&byte| of(byte))
                            .for_each(|byte| held[usize::from(byte)] = true);
                        first = false;
                        continue;
                    }
                },
                _ => sign,
            };
            first = false;
            let is_range = self.rest().starts_with(b"-") && !self.rest().starts_with(b"-]");
            let high = if is_range {
                self.at += 1;
                let sign = *self.rest().first().ok_or(Fault::Open('['))?;
                self.at += 1;
                match sign {
                    b'\\' => match self.escaped()? {
                        Escaped::Sign(byte) => byte,
                        Escaped::Class(_) => return Err(Fault::Range),
                    },
                    _ => sign,
                }
            } else {
                low
            };
            if !low.is_ascii() || !high.is_ascii() {
                return Err(Fault::ClassOfOthers);
            }
            if low > high {
                return Err(Fault::Range);
            }
            (low..=high).for_each(|byte| held[usize::from(byte)] = true);
        }
        let is_in = |byte: u8| {
            if negated {
                (byte == b' ' || byte.is_ascii_graphic()) && !held[usize::from(byte)]
            } else {
                held[usize::from(byte)]
            }
        };
        match class(is_in) {
            Node::Class(any) if any.is_empty() => Err(Fault::EmptyClass),
            class => Ok(class),
        }
    }

    fn repeated(&mut self, node: Node) -> Result<Node, Fault> {
        let (min, max) = match self.rest().first() {
            Some(b'?') => (0, 1),
            Some(b'*') => (0, REPEATS_MAX),
            Some(b'+') => (1, 1 + REPEATS_MAX),
            Some(b'{') => {
                let end = memchr::memchr(b'}', self.rest()).ok_or(Fault::Open('{'))?;
                let numbers = &self.rest()[1..end];
                let numbers = std::str::from_utf8(numbers).map_err(|_| Fault::Numbers)?;
                let number = |text: &str| text.parse::<u32>().map_err(|_| Fault::Numbers);
                let (min, max) = match numbers.split_once(',') {
                    None => (number(numbers)?, number(numbers)?),
                    Some((min, "")) => (number(min)?, number(min)?.saturating_add(REPEATS_MAX)),
                    Some((min, max)) => (number(min)?, number(max)?),
                };
                if min > max || max > REPEATS_GIVEN_MAX {
                    return Err(Fault::Numbers);
                }
                self.at += end;
                (min, max)
            }
            _ => return Ok(node),
        };
        self.at += 1;
        if let Some(&sign @ (b'*' | b'+' | b'?' | b'{')) = self.rest().first() {
            return Err(Fault::Nothing(char::from(sign)));
        }
        let what = Box::new(node);
        Ok(Node::Repeat { what, min, max })
    }
}

fn class(is_in: impl Fn(u8) -> bool) -> Node {
    Node::Class((0..128).filter(|&byte| is_in(byte)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(expression: &str) -> Vec<String> {
        let (pattern, length) = Pattern::parse(format!("{expression}}}}}").as_bytes()).unwrap();
        assert_eq!(length, expression.len(), "{expression}");
        let mut random = Random::new(7);
        let one = |_| {
            let mut out = Vec::new();
            pattern.render(&mut random, &mut out);
            String::from_utf8(out).unwrap()
        };
        (0..500).map(one).collect()
    }

    #[test]
    fn every_string_matches_its_expression() {
        for expression in [
            "abc",
            "",
            "[a-c]{3}",
            "[a-z]{2,5}x{1}",
            "a*b+c?",
            "(ab|c[0-9]|)d{2,}",
            "(?:x|yy){0,3}\\.\\d\\w",
            "[^a-z\\]-]{4}",
            "[]a]b",
            "[a-]",
            "[\\d_]{1,2}",
            ".{20}",
            "^[A-F0-9]{8}$",
            "ü{2}|\\}\\{",
            "a b",
        ] {
            let whole =
                regex_lite::Regex::new(&format!("^(?:{})$", expression.replace("[]", "[\\]"))).unwrap();
            for text in strings(expression) {
                assert!(whole.is_match(&text), "{expression}: {text:?}");
            }
        }
    }

    #[test]
    fn all_that_may_stand_somewhere_does_at_some_time() {
        for (expression, all) in [
            ("[a-c]|x", &["a", "b", "c", "x"][..]),
            ("a{0,2}", &["", "a", "aa"]),
            ("(a|b)?", &["", "a", "b"]),
        ] {
            let mut found = strings(expression);
            found.sort_unstable();
            found.dedup();
            assert_eq!(found, all, "{expression}");
        }
        let longest = strings("a*").iter().map(String::len).max();
        assert_eq!(longest, Some(REPEATS_MAX as usize));
    }

    #[test]
    fn an_expression_ends_where_its_braces_are_no_longer_its_own() {
        for (text, length) in [
            ("a{2}}} b}}", 4),
            ("(a{2}){3}}}", 9),
            ("[}]}}", 3),
            ("\\}}}", 2),
            ("a }}", 2),
        ] {
            assert_eq!(Pattern::parse(text.as_bytes()).unwrap().1, length, "{text}");
        }
        for text in ["a{2}", "a{2}}", "a "] {
            assert!(Pattern::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for (text, fault) in [
            ("(a", Fault::Open('(')),
            ("[a", Fault::Open('[')),
            ("a)", Fault::Close),
            ("*a", Fault::Nothing('*')),
            ("a**", Fault::Nothing('*')),
            ("a+?", Fault::Nothing('?')),
            ("a{x}", Fault::Numbers),
            ("a{3,2}", Fault::Numbers),
            ("a{1001}", Fault::Numbers),
            ("[z-a]", Fault::Range),
            ("[ä]", Fault::ClassOfOthers),
            ("[^\\x20]", Fault::Escape('x')),
            ("\\b", Fault::Escape('b')),
            ("(?=a)", Fault::Group),
            ("(.{100}){100}", Fault::Long(10_000)),
        ] {
            let found = Pattern::parse(format!("{text}}}}}").as_bytes()).unwrap_err();
            assert_eq!(found, fault, "{text}");
        }
    }
}
