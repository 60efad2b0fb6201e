//! Makes the client of etcd's services out of the protos of the store, for the load on etcd.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=../crates/store-etcd/proto");
    #[cfg(feature = "etcd")]
    {
        let files = protox::compile(["rpc.proto"], ["../crates/store-etcd/proto"])?;
        tonic_prost_build::configure().build_server(false).compile_fds(files)?;
    }
    Ok(())
}
