//! The specifier of an import in a script, and the importing module: one line each.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (base, name) = text.split_once('\n').unwrap_or((text, text));
    forebay_script::fuzzing::module_name(base, name);
});
