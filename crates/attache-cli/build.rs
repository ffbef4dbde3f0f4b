//! Has the command export the functions that opaque delegates call (`--external-delegate`).

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_linux = std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux");
    if is_linux && std::env::var_os("CARGO_FEATURE_EXTERNAL").is_some() {
        println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=TfLiteO*");
    }
}
