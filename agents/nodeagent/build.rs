//! Compiles the library that is loaded into roles; the agent carries it in itself.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    let source = "preload/calls.c";
    println!("cargo:rerun-if-changed={source}");
    println!("cargo:rerun-if-env-changed=CC");
    let compiler = env::var("CC").unwrap_or("cc".into());
    let library = PathBuf::from(env::var_os("OUT_DIR").expect("OUT_DIR is set")).join("calls.so");
    let status = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&library)
        .args([source, "-ldl"])
        .status();
    let is_built = status.is_ok_and(|status| status.success());
    assert!(is_built, "`{compiler}` could not compile {source}");
}
