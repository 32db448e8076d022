//! Node-API functions live in the process that loads the addon; macOS wants to be told so when linking.

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("macos") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-undefined,dynamic_lookup");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
