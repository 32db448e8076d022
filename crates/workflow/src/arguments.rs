//! The arguments of runs.

use serde_json::value::RawValue;

use crate::WorkflowFailure;

/// Deepest nesting of arguments. Rules and decisions handle values recursively.
pub(crate) const ARGUMENTS_DEPTH_MAX: usize = 128;

/// Most arguments in a list.
pub(crate) const ARGUMENTS_MAX: usize = 1000;

/// Parses the arguments of a run; without a text, they are an empty object.
///
/// # Errors
/// If they are no JSON object, or nested too deeply.
pub fn arguments(text: &[u8]) -> Result<&RawValue, WorkflowFailure> {
    let text = if text.is_empty() { b"{}" } else { text };
    let what = match serde_json::from_slice::<&RawValue>(text) {
        Ok(args) if depth_of(args.get()) > ARGUMENTS_DEPTH_MAX => {
            format!("it is nested deeper than {ARGUMENTS_DEPTH_MAX} levels")
        }
        Ok(args) if args.get().starts_with('{') => return Ok(args),
        Ok(_) => "it is another value".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(WorkflowFailure::Arguments { what })
}

/// Whether a text is a list of arguments, if it is JSON.
pub fn is_list(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"[")
}

/// Parses a list of arguments, one for each run.
///
/// # Errors
/// If it is no list of JSON objects, or has too many.
pub fn argument_list(text: &[u8]) -> Result<Vec<&RawValue>, WorkflowFailure> {
    let wrong = |what: String| WorkflowFailure::Arguments { what };
    let list: Vec<&RawValue> = serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
    if list.len() > ARGUMENTS_MAX {
        let found = list.len();
        return Err(wrong(format!(
            "it is a list of {found} objects, at most {ARGUMENTS_MAX}"
        )));
    }
    match list.iter().position(|args| !args.get().starts_with('{')) {
        Some(at) => Err(wrong(format!("entry {at} of the list is another value"))),
        None => Ok(list),
    }
}

/// The deepest nesting of objects and arrays in valid JSON.
pub(crate) fn depth_of(json: &str) -> usize {
    let (mut depth, mut deepest, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !is_text => depth -= 1,
            _ => {}
        }
    }
    deepest
}
