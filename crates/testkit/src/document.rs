/// The code blocks of one language in a Markdown document, in their order, each with its last line end: the lines between three backticks
/// with the language's name and three backticks alone.
pub fn blocks<'d>(document: &'d str, language: &str) -> Vec<&'d str> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, bool)> = None;
    let mut at = 0;
    for line in document.split_inclusive('\n') {
        let fence = line.trim_end().strip_prefix("```");
        match (open, fence) {
            (None, Some(named)) => open = Some((at + line.len(), named == language)),
            (Some((start, wanted)), Some("")) => {
                if wanted {
                    blocks.push(&document[start..at]);
                }
                open = None;
            }
            _ => {}
        }
        at += line.len();
    }
    assert!(open.is_none(), "a block of the document has no end");
    blocks
}

#[cfg(test)]
mod tests {
    use super::blocks;

    #[test]
    fn blocks_of_one_language_are_found_between_those_of_others() {
        let document = "a\n```js\none();\n```\n```json\n{}\n```\n\n```\n```js in a block\n```\n```js\ntwo('```');\n\n```\n";
        assert_eq!(blocks(document, "js"), ["one();\n", "two('```');\n\n"]);
        assert_eq!(blocks(document, "json"), ["{}\n"]);
        assert_eq!(blocks(document, "toml"), [""; 0]);
    }
}
