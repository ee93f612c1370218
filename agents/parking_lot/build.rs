//! Rust of the two protocols; `protox` stands in for `protoc`, so that nothing need be installed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let compile = |file: &str| protox::compile([file], ["proto"]);
    tonic_prost_build::configure().compile_fds(compile("parking_lot.proto")?)?;
    tonic_prost_build::configure().build_server(false).compile_fds(compile("etcd.proto")?)?;
    Ok(())
}
