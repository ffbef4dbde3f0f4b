//! Compiles the functions that need arguments of any number, which Rust cannot write.

fn main() {
    println!("cargo::rerun-if-changed=src/report.c");
    cc::Build::new().file("src/report.c").warnings(true).extra_warnings(true).compile("attache_abi_report");
}
