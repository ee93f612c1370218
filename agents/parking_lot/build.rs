//! Rust of the two protocols; `protox` stands in for `protoc`, so that nothing need be installed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let of = |file: &str| protox::compile([file], ["proto"]);
    tonic_prost_build::configure().compile_fds(of("parking_lot.proto")?)?;
    tonic_prost_build::configure().build_server(false).compile_fds(of("etcd.proto")?)?;
    Ok(())
}
