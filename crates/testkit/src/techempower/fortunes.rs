//! The page of fortunes, compared with the correct one after both are normalized.

use super::{Check, Kind, answers::Answers};

/// Its rows in their order.
const ROWS: [(&str, &str); 13] = [
    (
        "11",
        "&lt;script&gt;alert(&quot;This should not be displayed in a browser alert box.&quot;);&lt;/script&gt;",
    ),
    (
        "4",
        "A bad random number generator: 1, 1, 1, 1, 1, 4.33e+67, 1, 1, 1",
    ),
    (
        "5",
        "A computer program does what you tell it to do, not what you want it to do.",
    ),
    (
        "2",
        "A computer scientist is someone who fixes things that aren&apos;t broken.",
    ),
    (
        "8",
        "A list is only as strong as its weakest link. — Donald Knuth",
    ),
    ("0", "Additional fortune added at request time."),
    ("3", "After enough decimal places, nobody gives a damn."),
    ("7", "Any program that runs right is obsolete."),
    ("10", "Computers make very fast, very accurate mistakes."),
    (
        "6",
        "Emacs is a nice operating system, but I prefer UNIX. — Tom Christaensen",
    ),
    ("9", "Feature: A bug with seniority."),
    ("1", "fortune: No such file or directory"),
    ("12", "フレームワークのベンチマーク"),
];
/// Elements that a page may have or not.
const IGNORED: [&str; 5] = ["meta", "link", "script", "thead", "tbody"];
/// Character references, with the normal form of each.
const REFERENCES: [(&[&str], &str); 9] = [
    (&["#34", "#034", "#x22", "quot"], "&quot;"),
    (&["#39", "#039", "#x27", "apos"], "&apos;"),
    (&["#62", "#062", "#x3e", "gt"], "&gt;"),
    (&["#60", "#060", "#x3c", "lt"], "&lt;"),
    (&["#43", "#043", "#x2b"], "+"),
    (&["#47", "#047", "#x2f"], "/"),
    (&["#40", "#040", "#x28"], "("),
    (&["#41", "#041", "#x29"], ")"),
    (&["mdash"], "—"),
];

/// `/fortunes`.
pub(super) fn page(answers: &mut Answers) {
    let target = Kind::Fortunes.path();
    let Some(response) = answers.ask(target) else {
        return;
    };
    let Ok(page) = std::str::from_utf8(&response.body) else {
        return answers.problem(Check::Page, target, "the page is not UTF-8");
    };
    if let Some(text) = difference(page) {
        answers.problem(Check::Page, target, text);
    }
}

/// The first difference from the correct page.
fn difference(page: &str) -> Option<String> {
    let (found, wanted) = (parts(page), parts(&right_page()));
    let at = (0..found.len().max(wanted.len())).find(|at| found.get(*at) != wanted.get(*at))?;
    let part = |parts: &[String]| {
        parts
            .get(at)
            .map_or("the end".to_owned(), |part| format!("{part:?}"))
    };
    let before = at
        .checked_sub(1)
        .map_or("the beginning", |at| wanted[at].as_str());
    Some(format!(
        "{} instead of {} after {before:?}",
        part(&found),
        part(&wanted)
    ))
}

fn right_page() -> String {
    let rows = ROWS.map(|(id, message)| format!("<tr><td>{id}</td><td>{message}</td></tr>"));
    format!(
        "<!doctype html><html><head><title>Fortunes</title></head><body><table><tr><th>id</th><th>message</th></tr>{}\
         </table></body></html>",
        rows.concat()
    )
}

/// A page as its tags without attributes, and the texts between them, all normalized; without optional elements.
fn parts(page: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = page;
    let mut in_script = false;
    while !rest.is_empty() {
        if let Some((tag, after)) = tag(rest, in_script) {
            let name = tag.trim_start_matches('/');
            if name == "script" {
                in_script = !tag.starts_with('/');
            }
            if !in_script && !tag.starts_with("!--") && !IGNORED.contains(&name) {
                parts.push(format!("<{tag}>"));
            }
            rest = after;
        } else {
            let first = rest.chars().next().map_or(0, char::len_utf8);
            let end = rest[first..].find('<').map_or(rest.len(), |at| at + first);
            let text = &rest[..end];
            if !in_script && !text.trim().is_empty() {
                parts.push(normal_text(text));
            }
            rest = &rest[end..];
        }
    }
    parts
}

/// The tag, comment or declaration at the start of a text, in lower case and without attributes, and the rest of the text.
fn tag(text: &str, in_script: bool) -> Option<(String, &str)> {
    let inside = text.strip_prefix('<')?;
    if let Some(comment) = inside.strip_prefix("!--") {
        let (_, after) = comment.split_once("-->")?;
        return Some(("!--".to_owned(), after));
    }
    // A letter, `/` or `!` after `<` begins a tag; anything else is text, and so are other tags in a script.
    let begins = inside.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '!');
    if !begins || in_script && !inside.to_ascii_lowercase().starts_with("/script") {
        return None;
    }
    let (inside, after) = inside.split_once('>')?;
    if inside.starts_with('!') {
        return Some((inside.to_ascii_lowercase(), after));
    }
    let name = inside.split([' ', '\t', '\n', '\r']).next().unwrap_or_default();
    Some((name.trim_end_matches('/').to_ascii_lowercase(), after))
}

/// A text with normalized characters.
fn normal_text(text: &str) -> String {
    let mut normal = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some((written, after)) = reference(rest) {
            normal.push_str(&written);
            rest = after;
            continue;
        }
        match c {
            '\'' => normal.push_str("&apos;"),
            '"' => normal.push_str("&quot;"),
            '>' => normal.push_str("&gt;"),
            _ => normal.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    normal
}

/// The character reference at the start of a text in its normal form, and the rest of the text.
fn reference(text: &str) -> Option<(String, &str)> {
    let (name, after) = text.strip_prefix('&')?.split_once(';')?;
    let name = name.to_ascii_lowercase();
    let known = REFERENCES
        .iter()
        .find(|(names, _)| names.contains(&name.as_str()));
    known.map(|(_, written)| ((*written).to_owned(), after))
}

#[cfg(test)]
mod tests {
    use super::{difference, right_page};

    #[test]
    fn ways_to_write_the_same_page_do_not_matter() {
        let right = right_page();
        assert_eq!(difference(&right), None);
        let other = right
            .replace("<!doctype html>", "<!DOCTYPE html>\n<!-- rendered -->")
            .replace(
                "<head>",
                "<HEAD><meta charset=\"utf-8\"/><link rel=x><script>let a = '<b>';</script>",
            )
            .replace("<table>", "<table class=\"a b\">\n <thead>")
            .replace("<tr><td>", "</tbody><tbody>\n  <tr id='x'><td>")
            .replace("aren&apos;t", "aren&#x27;t")
            .replace("&quot;", "&#34;")
            .replace("&gt;", ">")
            .replace("e+67", "e&#43;67")
            .replace('—', "&mdash;");
        assert_ne!(other, right);
        assert_eq!(difference(&other), None);
    }

    #[test]
    fn another_page_is_told_from_it_with_the_place() {
        let right = right_page();
        for (from, to, told) in [
            (
                "&lt;script&gt;",
                "<script>",
                "the end instead of \"&lt;script&gt;alert(",
            ),
            (
                "<td>0</td>",
                "<td>00</td>",
                "\"00\" instead of \"0\" after \"<td>\"",
            ),
            ("フレーム", "????", "instead of \"フレーム"),
            (
                "</table>",
                "",
                "\"</body>\" instead of \"</table>\" after \"</tr>\"",
            ),
            (
                "<!doctype html>",
                "",
                "\"<html>\" instead of \"<!doctype html>\" after \"the beginning\"",
            ),
            ("</html>", "", "the end instead of \"</html>\""),
        ] {
            let text = difference(&right.replace(from, to)).unwrap();
            assert!(text.contains(told), "{from}: {text}");
        }
    }
}
