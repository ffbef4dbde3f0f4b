//! Has the command export the functions that delegates of others call (`--external-delegate`).

/// The names of these functions, `*` for any rest.
const EXPORTED: [&str; 6] =
    ["TfLiteO*", "TfLiteIntArray*", "TfLiteFloatArray*", "TfLiteTensor*", "TfLiteTypeGetName", "TfLite*Free"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_linux = std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux");
    if is_linux && std::env::var_os("CARGO_FEATURE_EXTERNAL").is_some() {
        for name in EXPORTED {
            println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol={name}");
        }
    }
}
