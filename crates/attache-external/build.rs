//! Has the tests' programs export the functions that opaque delegates call.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-link-arg-tests=-Wl,--export-dynamic-symbol=TfLiteO*");
    }
}
