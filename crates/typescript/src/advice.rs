//! Suggestions for TypeScript constructs that are more than types.

/// Said of an enum that cannot be converted.
pub(super) const ENUM: &str =
    "an enum is more than types; write an object: `const Color = { Red: 0, Green: 1 } as const`";
const NAMESPACE: &str = "a namespace with values is more than types; write a file of its own and import it: \
                         `import * as shapes from './shapes.ts'`";
const IMPORT: &str = "`import x = ...` is no part of ES modules; write `import x from '...'`";
const EXPORT: &str = "`export = x` is no part of ES modules; write `export default x`";
const PARAMETER: &str = "a parameter property is more than types; declare the field in the class and assign it in the \
                         constructor: `this.name = name`";
const ASSERTION: &str = "`<T>expression` cannot be erased; write `expression as T`";
const POWER: &str = "without its type this would be no JavaScript; write `(-x) ** y`";
const DECORATOR: &str =
    "decorators are no part of JavaScript yet; call a function instead: `register(Handler)`";

/// The replacement for a construct that the eraser refuses, recognised by the words before and after the position it reports.
pub(super) fn about_refused(before: &str, at: &str) -> Option<&'static str> {
    let mut words = at
        .split(|c: char| !is_part_of_word(c))
        .skip_while(|word| matches!(*word, "export" | "const"));
    Some(match words.next()? {
        "enum" => ENUM,
        "namespace" | "module" => NAMESPACE,
        "import" => IMPORT,
        _ if at.starts_with("export") => EXPORT,
        _ if is_modifier(last_word(before)) => PARAMETER,
        _ if at.starts_with('<') => ASSERTION,
        _ if at.starts_with(['-', '+', '~', '!']) => POWER,
        _ => return None,
    })
}

/// The replacement for syntax that the parser does not understand.
pub(super) fn about_not_understood(at: &str) -> Option<&'static str> {
    at.starts_with('@').then_some(DECORATOR)
}

fn is_modifier(word: &str) -> bool {
    matches!(word, "public" | "private" | "protected" | "readonly" | "override")
}

fn last_word(text: &str) -> &str {
    text.trim_end()
        .rsplit(|c: char| !is_part_of_word(c))
        .next()
        .unwrap_or_default()
}

fn is_part_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}
