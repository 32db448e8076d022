//! Replaces enums by code with the same meaning, on the same lines. Within such lines, columns move.

use std::{collections::HashMap, ops::Range};

use swc_common::{BytePos, FileName, SourceMap, Span, Spanned};
use swc_ecma_ast::{BinaryOp, EsVersion, Expr, Ident, Lit, TsEnumDecl, TsEnumMemberId};
use swc_ecma_parser::{Syntax, TsSyntax, parse_file_as_program};
use swc_ecma_visit::{Visit, VisitWith};

/// The source with an object in the place of each enum. `None`: it cannot be parsed.
pub(super) fn converted(source: &str) -> Option<String> {
    let map = SourceMap::default();
    let file = map.new_source_file(FileName::Anon.into(), source.to_owned());
    let syntax = Syntax::Typescript(TsSyntax {
        decorators: true,
        ..TsSyntax::default()
    });
    let program = parse_file_as_program(&file, syntax, EsVersion::latest(), None, &mut Vec::new()).ok()?;
    let mut enums = Enums {
        text: &file.src,
        start: file.start_pos,
        edits: Vec::new(),
    };
    program.visit_with(&mut enums);
    let (mut out, mut done) = (String::new(), 0);
    for (range, text) in enums.edits {
        out.push_str(&file.src[done..range.start]);
        out.push_str(&text);
        done = range.end;
    }
    out.push_str(&file.src[done..]);
    Some(out)
}

/// Collects replacements for parts of the text, in its order.
struct Enums<'s> {
    text: &'s str,
    start: BytePos,
    edits: Vec<(Range<usize>, String)>,
}

impl Enums<'_> {
    fn range(&self, from: BytePos, to: BytePos) -> Range<usize> {
        (from - self.start).0 as usize..(to - self.start).0 as usize
    }

    fn replace(&mut self, from: BytePos, to: BytePos, text: String) {
        let range = self.range(from, to);
        self.edits.push((range, text));
    }

    /// Replaces a part without members: only its newlines stay.
    fn replace_around(&mut self, from: BytePos, to: BytePos, text: &str) {
        let newlines = self.text[self.range(from, to)].matches('\n');
        let text = newlines.fold(text.to_owned(), |text, newline| text + newline);
        self.replace(from, to, text);
    }
}

impl Visit for Enums<'_> {
    /// Writes the members as the items of an array, which may have a comma after the last one, as enums may.
    fn visit_ts_enum_decl(&mut self, declaration: &TsEnumDecl) {
        if declaration.declare {
            return;
        }
        let (name, end) = (&*declaration.id.sym, declaration.span.hi);
        self.replace_around(declaration.span.lo, declaration.id.span.lo, "const ");
        let first = declaration
            .members
            .first()
            .map_or(end - BytePos(1), |member| member.span.lo);
        self.replace_around(declaration.id.span.hi, first, &format!(" = (({name}) => {{ ["));
        let mut members = Members {
            name,
            keys: HashMap::new(),
        };
        let mut next = "0".to_owned();
        for member in &declaration.members {
            let id = member.id.span();
            let (key, word) = match &member.id {
                TsEnumMemberId::Ident(word) => (format!("\"{}\"", word.sym), word.sym.to_string()),
                TsEnumMemberId::Str(quoted) => (
                    self.text[self.range(id.lo, id.hi)].to_owned(),
                    quoted.value.to_string_lossy().into_owned(),
                ),
            };
            let place = format!("{name}[{key}]");
            let is_text = member.init.as_ref().is_some_and(|init| members.is_text(init));
            let (before, after) = if is_text {
                (place.clone(), String::new())
            } else {
                (format!("{name}[{place}"), format!("] = {key}"))
            };
            self.replace(id.lo, id.hi, before);
            let value = match &member.init {
                Some(init) => {
                    let mut uses = Uses {
                        members: &members,
                        found: Vec::new(),
                    };
                    init.visit_with(&mut uses);
                    for (span, text) in uses.found {
                        self.replace(span.lo, span.hi, text);
                    }
                    String::new()
                }
                None => format!(" = {next}"),
            };
            self.replace(member.span.hi, member.span.hi, value + &after);
            next = format!("{place} + 1");
            members.keys.insert(word, (place, is_text));
        }
        self.replace(end - BytePos(1), end, format!("]; return {name}; }})({{}});"));
    }
}

/// The members of an enum so far.
struct Members<'n> {
    name: &'n str,
    /// The expression for each, and whether its value is a text: a number leads back to the member's name, a text does not.
    keys: HashMap<String, (String, bool)>,
}

impl Members<'_> {
    fn is_text(&self, value: &Expr) -> bool {
        match value {
            Expr::Lit(Lit::Str(_)) | Expr::Tpl(_) => true,
            Expr::Paren(inner) => self.is_text(&inner.expr),
            Expr::Bin(both) => {
                both.op == BinaryOp::Add && (self.is_text(&both.left) || self.is_text(&both.right))
            }
            Expr::Ident(word) => self.keys.get(&*word.sym).is_some_and(|(_, is_text)| *is_text),
            Expr::Member(member) => {
                let is_own = member
                    .obj
                    .as_ident()
                    .is_some_and(|object| object.sym == self.name);
                let word = member.prop.as_ident().filter(|_| is_own);
                word.and_then(|word| self.keys.get(&*word.sym))
                    .is_some_and(|(_, is_text)| *is_text)
            }
            _ => false,
        }
    }
}

/// Finds the names of earlier members in a value: they stand for members of the object.
struct Uses<'m> {
    members: &'m Members<'m>,
    found: Vec<(Span, String)>,
}

impl Visit for Uses<'_> {
    fn visit_ident(&mut self, word: &Ident) {
        if let Some((place, _)) = self.members.keys.get(&*word.sym) {
            self.found.push((word.span, place.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enum_becomes_an_object_on_the_same_lines() {
        for (text, right) in [
            (
                "enum Color { Red, Green = 'g', Blue = 4, Dark = Red | (1 << 3), Last } rest",
                "const Color = ((Color) => { [Color[Color[\"Red\"] = 0] = \"Red\", Color[\"Green\"] = 'g', Color[Color[\"Blue\"] = 4] = \"Blue\", Color[Color[\"Dark\"] = Color[\"Red\"] | (1 << 3)] = \"Dark\", Color[Color[\"Last\"] = Color[\"Dark\"] + 1] = \"Last\" ]; return Color; })({}); rest",
            ),
            (
                "const enum A // {\n{\n  // one\n  'b c' = 1, /* , */\n  \"\\\"\",\n}",
                "const A = ((A) => { [\n\n\nA[A['b c'] = 1] = 'b c', /* , */\n  A[A[\"\\\"\"] = A['b c'] + 1] = \"\\\"\",\n]; return A; })({});",
            ),
            (
                "enum A { b = 'x' + 1, c = b, d = A.b, e = 'abc'.length, f = o.b }",
                "const A = ((A) => { [A[\"b\"] = 'x' + 1, A[\"c\"] = A[\"b\"], A[\"d\"] = A.b, A[A[\"e\"] = 'abc'.length] = \"e\", A[A[\"f\"] = o.b] = \"f\" ]; return A; })({});",
            ),
            ("enum A {}", "const A = ((A) => { []; return A; })({});"),
            ("declare enum A { b }", "declare enum A { b }"),
        ] {
            assert_eq!(converted(text).as_deref(), Some(right));
        }
        for text in [
            "enum",
            "enum A",
            "enum A { b",
            "enum A { b c }",
            "enum A { b = ( }",
        ] {
            assert_eq!(converted(text), None, "{text}");
        }
    }
}
