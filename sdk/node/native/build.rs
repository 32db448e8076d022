//! Node-API functions are resolved in the process that loads the addon; the linker of macOS needs a flag for that.

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("macos") {
        println!("cargo::rustc-link-arg-examples=-Wl,-undefined,dynamic_lookup");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
