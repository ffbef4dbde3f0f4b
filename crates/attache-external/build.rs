//! Has the tests' programs export the functions that delegates call.

/// The names of these functions, `*` for any rest.
const EXPORTED: [&str; 6] =
    ["TfLiteO*", "TfLiteIntArray*", "TfLiteFloatArray*", "TfLiteTensor*", "TfLiteTypeGetName", "TfLite*Free"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        for name in EXPORTED {
            println!("cargo::rustc-link-arg-tests=-Wl,--export-dynamic-symbol={name}");
        }
    }
}
