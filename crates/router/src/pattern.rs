//! Parses a route's path: `/users/:id`, `/static/*rest`.

/// Longest pattern, in bytes.
pub(super) const PATTERN_BYTES_MAX: usize = 1024;
/// Most segments of a pattern. Bounds the depth of a search.
pub(super) const SEGMENTS_MAX: usize = 64;

/// A validated pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    segments: Vec<Segment>,
}

/// One segment of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Exactly this text, compared with the decoded segment.
    Static(String),
    /// Any one non-empty segment, under this name.
    Param(String),
    /// All remaining segments, at least one, under this name (`*` if it has none).
    Rest(String),
}

/// A text is not a valid pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It does not start with `/`.
    #[error("it must start with `/`")]
    NoSlash,
    /// It is too long.
    #[error("it has {bytes} bytes, at most {PATTERN_BYTES_MAX} are accepted")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// It has too many segments.
    #[error("it has {segments} segments, at most {SEGMENTS_MAX} are accepted")]
    TooDeep {
        /// Number of segments.
        segments: usize,
    },
    /// Two slashes in a row.
    #[error("it has an empty segment (`//`)")]
    EmptySegment,
    /// A segment that request paths cannot contain.
    #[error("segment `{segment}` never matches: paths with it are refused")]
    Dots {
        /// `.` or `..`
        segment: String,
    },
    /// A character with a special meaning in URLs.
    #[error("it has `{character}`; write the path decoded, without a query")]
    Character {
        /// `%`, `?`, `#` or a control character, escaped.
        character: String,
    },
    /// A parameter has no name, or one that is not an identifier.
    #[error("`{segment}` needs a name of letters, digits and `_` that does not start with a digit")]
    Name {
        /// The segment as written.
        segment: String,
    },
    /// Two parameters share a name.
    #[error("parameter `{name}` appears twice")]
    Repeated {
        /// The repeated name.
        name: String,
    },
    /// A `*` anywhere but at the start of the last segment.
    #[error("`*` may stand only at the start of the last segment")]
    Star,
}

impl Pattern {
    /// Parses and validates a pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong { bytes: text.len() });
        }
        let path = text.strip_prefix('/').ok_or(PatternError::NoSlash)?;
        if let Some(character) = path
            .chars()
            .find(|c| matches!(c, '%' | '?' | '#') || c.is_control())
        {
            return Err(PatternError::Character {
                character: character.escape_debug().to_string(),
            });
        }
        let written: Vec<&str> = path.split('/').collect();
        if written.len() > SEGMENTS_MAX {
            return Err(PatternError::TooDeep {
                segments: written.len(),
            });
        }
        let last = written.len() - 1;
        let segments = written
            .iter()
            .enumerate()
            .map(|(at, text)| segment(text, at == last))
            .collect::<Result<_, _>>()?;
        let pattern = Self { segments };
        pattern.refuse_repeated_names()?;
        Ok(pattern)
    }

    /// The segments; at least one.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Names of the parameters in path order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Static(_) => None,
            Segment::Param(name) | Segment::Rest(name) => Some(name.as_str()),
        })
    }

    /// Whether the last segment is a `*`.
    pub fn ends_with_rest(&self) -> bool {
        matches!(self.segments.last(), Some(Segment::Rest(_)))
    }

    fn refuse_repeated_names(&self) -> Result<(), PatternError> {
        let mut names: Vec<&str> = self.names().collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(PatternError::Repeated {
                name: pair[0].to_owned(),
            }),
            None => Ok(()),
        }
    }
}

fn segment(text: &str, last: bool) -> Result<Segment, PatternError> {
    if let Some(name) = text.strip_prefix(':') {
        return word(name).map(Segment::Param).ok_or_else(|| PatternError::Name {
            segment: text.to_owned(),
        });
    }
    if last && text == "*" {
        return Ok(Segment::Rest("*".to_owned()));
    }
    if let Some(name) = text.strip_prefix('*')
        && last
    {
        return word(name).map(Segment::Rest).ok_or_else(|| PatternError::Name {
            segment: text.to_owned(),
        });
    }
    match text {
        "" if !last => Err(PatternError::EmptySegment),
        "." | ".." => Err(PatternError::Dots {
            segment: text.to_owned(),
        }),
        _ if text.contains('*') => Err(PatternError::Star),
        _ => Ok(Segment::Static(text.to_owned())),
    }
}

fn word(name: &str) -> Option<String> {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let goes_on_well = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (starts_well && goes_on_well).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_cut_into_what_each_segment_takes() {
        let pattern = Pattern::parse("/v1/users:batch/:id/*rest").unwrap();
        let expected = [
            Segment::Static("v1".into()),
            Segment::Static("users:batch".into()),
            Segment::Param("id".into()),
            Segment::Rest("rest".into()),
        ];
        assert_eq!(pattern.segments(), expected);
        assert_eq!(
            Pattern::parse("/").unwrap().segments(),
            [Segment::Static(String::new())]
        );
        assert_eq!(
            Pattern::parse("/*").unwrap().segments(),
            [Segment::Rest("*".into())]
        );
    }

    #[test]
    fn each_mistake_is_named() {
        let deep = "/a".repeat(65);
        let long = "/".to_owned() + &"a".repeat(1024);
        for (text, message) in [
            ("", "it must start with `/`"),
            ("users", "it must start with `/`"),
            (&long, "it has 1025 bytes, at most 1024 are accepted"),
            (&deep, "it has 65 segments, at most 64 are accepted"),
            ("/a//b", "it has an empty segment (`//`)"),
            ("//", "it has an empty segment (`//`)"),
            ("/a/../b", "segment `..` never matches: paths with it are refused"),
            ("/a%20b", "it has `%`; write the path decoded, without a query"),
            ("/a?b=c", "it has `?`; write the path decoded, without a query"),
            ("/a\n", "it has `\\n`; write the path decoded, without a query"),
            (
                "/:",
                "`:` needs a name of letters, digits and `_` that does not start with a digit",
            ),
            (
                "/:1st",
                "`:1st` needs a name of letters, digits and `_` that does not start with a digit",
            ),
            (
                "/:a-b",
                "`:a-b` needs a name of letters, digits and `_` that does not start with a digit",
            ),
            (
                "/*a.b",
                "`*a.b` needs a name of letters, digits and `_` that does not start with a digit",
            ),
            ("/:id/:id", "parameter `id` appears twice"),
            ("/*/a", "`*` may stand only at the start of the last segment"),
            ("/a*", "`*` may stand only at the start of the last segment"),
        ] {
            assert_eq!(Pattern::parse(text).unwrap_err().to_string(), message, "{text}");
        }
    }
}
