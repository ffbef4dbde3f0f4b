//! Tells the linker what the library exports, and that it stays loaded: its threads and the graphics driver's may run
//! after a program has closed it.

fn main() {
    println!("cargo::rerun-if-changed=exports.map");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux" || system == "android") {
        let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets the folder");
        println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={folder}/exports.map");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
