//! What is made of `proto/`.

#[allow(missing_docs, unreachable_pub, clippy::all, reason = "it is generated")]
pub(crate) mod mvccpb {
    tonic::include_proto!("mvccpb");
}

#[allow(missing_docs, unreachable_pub, clippy::all, reason = "it is generated")]
pub(crate) mod etcdserverpb {
    tonic::include_proto!("etcdserverpb");
}
