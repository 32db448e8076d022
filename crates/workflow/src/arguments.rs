//! The arguments of runs.

use serde_json::value::RawValue;

use crate::WorkflowFailure;

/// Deepest nesting of arguments. Rules and decisions handle values recursively.
pub const ARGUMENTS_DEPTH_MAX: usize = 128;

/// Parses the arguments of a run.
///
/// # Errors
/// If they are no JSON object, or nested too deeply.
pub fn arguments(text: &[u8]) -> Result<&RawValue, WorkflowFailure> {
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

/// The deepest nesting of objects and arrays in valid JSON.
pub fn depth_of(json: &str) -> usize {
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
