//! etcd, one member, asked by gRPC. Each client has a connection of its own, as if it were a program of its own, unless it is
//! said that they share some.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::stream;
use tokio::sync::mpsc;
use tonic::transport::{Channel, Endpoint};

use self::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use self::etcdserverpb::kv_client::KvClient;
use self::etcdserverpb::lease_client::LeaseClient;
use self::etcdserverpb::request_op::Request;
use self::etcdserverpb::{
    Compare, DeleteRangeRequest, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, PutRequest,
    RangeRequest, RequestOp, TxnRequest,
};
use super::free_port;
use crate::crashes::told;
use crate::process::Process;
use crate::rounds::{Clients, Rate, Tally, load};
use crate::server::{CLIENTS, LEASES};

#[allow(missing_docs, unreachable_pub, clippy::all, reason = "it is generated")]
mod mvccpb {
    tonic::include_proto!("mvccpb");
}

#[allow(missing_docs, unreachable_pub, dead_code, clippy::all, reason = "it is generated")]
mod etcdserverpb {
    tonic::include_proto!("etcdserverpb");
}

/// Connections that clients of one program share.
const SHARED: usize = 8;
/// Clients that take leases.
const FILLERS: usize = 256;
/// So long that no lease ends while it is measured.
const TTL_S: i64 = 7_200;

/// An etcd of our own.
pub(crate) struct Etcd {
    pub(crate) process: Process,
    pub(crate) address: String,
    channels: Vec<Channel>,
}

/// What a client of etcd's does to hold something for a while.
#[derive(Clone, Copy)]
pub(crate) enum Session {
    /// One lease for as long as it lives, as etcd's own recipes have it: it is granted before the load begins.
    Kept,
    /// A lease of its own for each time: granted, and revoked to give back.
    Each,
}

impl Etcd {
    /// Starts one with nothing in it, as durable as it is by default.
    pub(crate) async fn start(folder: &Path) -> std::io::Result<Etcd> {
        let address = format!("127.0.0.1:{}", free_port()?);
        let (client, peer) = (format!("http://{address}"), format!("http://127.0.0.1:{}", free_port()?));
        let mut command = Command::new(told("BATON_TEST_ETCD_SERVER")?);
        command.args(["--name", "bench", "--log-level", "error", "--data-dir"]).arg(folder.join("etcd.data"));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("bench={peer}")]);
        let mut process = Process::start(&mut command, &folder.join("etcd.log"))?;
        process.await_for("etcd", || std::net::TcpStream::connect(&address).ok())?;
        let mut channels = Vec::new();
        for _ in 0..CLIENTS {
            let endpoint = Endpoint::from_shared(client.clone()).map_err(std::io::Error::other)?;
            channels.push(endpoint.connect().await.map_err(std::io::Error::other)?);
        }
        let etcd = Etcd { process, address, channels };
        etcd.read(0, "ready").await?;
        Ok(etcd)
    }

    fn channel(&self, client: usize) -> Channel {
        self.channels[client % CLIENTS].clone()
    }

    async fn read(&self, client: usize, key: &str) -> std::io::Result<usize> {
        let request = RangeRequest { key: key.into(), ..RangeRequest::default() };
        let answer = KvClient::new(self.channel(client)).range(request).await;
        Ok(answer.map_err(std::io::Error::other)?.into_inner().kvs.len())
    }

    /// So many clients, each of which takes a key of its own, bound to a lease, and gives it back.
    pub(crate) async fn pairs(&self, clients: usize, session: Session) -> std::io::Result<Rate> {
        let (tally, mut tasks) = (Arc::<Tally>::default(), Clients::new());
        for client in 0..clients {
            let (mut kv, mut leases) =
                (KvClient::new(self.channel(client)), LeaseClient::new(self.channel(client)));
            let (tally, key) = (Arc::clone(&tally), format!("pair-{client}"));
            let kept = match session {
                Session::Kept => Some(grant(&mut leases).await?),
                Session::Each => None,
            };
            tasks.spawn(async move {
                loop {
                    match kept {
                        Some(lease) => {
                            let revision = take(&mut kv, &key, lease).await?;
                            give_back(&mut kv, &key, revision).await?;
                        }
                        None => {
                            let lease = grant(&mut leases).await?;
                            take(&mut kv, &key, lease).await?;
                            revoke(&mut leases, lease).await?;
                        }
                    }
                    if !tally.add(1) {
                        break;
                    }
                }
                match kept {
                    Some(lease) => revoke(&mut leases, lease).await,
                    None => Ok(()),
                }
            });
        }
        load(&self.process, &tally, tasks).await
    }

    /// Keep-alives of these leases, on a stream for each client: one under way on each; or, as one program sends them,
    /// so many on each, on connections that are shared.
    pub(crate) async fn keep_alives(&self, leases: &[i64], under_way: usize) -> std::io::Result<Rate> {
        let connections = if under_way == 1 { CLIENTS } else { SHARED };
        let (tally, mut tasks) = (Arc::<Tally>::default(), Clients::new());
        for client in 0..CLIENTS {
            let mine: Vec<i64> = leases.iter().skip(client).step_by(CLIENTS).copied().collect();
            let leases = LeaseClient::new(self.channel(client % connections));
            tasks.spawn(keep_alive(leases, mine, under_way, Arc::clone(&tally)));
        }
        load(&self.process, &tally, tasks).await
    }

    /// Linearizable reads of keys that are there.
    pub(crate) async fn reads(&self) -> std::io::Result<Rate> {
        let (tally, mut tasks) = (Arc::<Tally>::default(), Clients::new());
        for client in 0..CLIENTS {
            let (mut kv, tally) = (KvClient::new(self.channel(client)), Arc::clone(&tally));
            let request = RangeRequest { key: format!("lease-{client}").into(), ..RangeRequest::default() };
            tasks.spawn(async move {
                loop {
                    let answer = kv.range(request.clone()).await.map_err(std::io::Error::other)?;
                    if answer.into_inner().kvs.len() != 1 {
                        return Err(std::io::Error::other("a key of etcd's is not there"));
                    }
                    if !tally.add(1) {
                        return Ok(());
                    }
                }
            });
        }
        load(&self.process, &tally, tasks).await
    }

    /// Takes so many leases, each with a key that says who leads.
    pub(crate) async fn fill(&self, leases: usize) -> std::io::Result<Vec<i64>> {
        let next = Arc::new(AtomicUsize::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for filler in 0..FILLERS {
            let (mut kv, mut client) =
                (KvClient::new(self.channel(filler)), LeaseClient::new(self.channel(filler)));
            let next = Arc::clone(&next);
            tasks.spawn(async move {
                let mut granted = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= leases {
                        return Ok::<_, std::io::Error>(granted);
                    }
                    let lease = grant(&mut client).await?;
                    take(&mut kv, &format!("lease-{number}"), lease).await?;
                    granted.push(lease);
                }
            });
        }
        let mut all = Vec::with_capacity(LEASES);
        while let Some(ended) = tasks.join_next().await {
            all.extend(ended.map_err(std::io::Error::other)??);
        }
        Ok(all)
    }
}

async fn keep_alive(
    mut client: LeaseClient<Channel>,
    mine: Vec<i64>,
    under_way: usize,
    tally: Arc<Tally>,
) -> std::io::Result<()> {
    let (sender, receiver) = mpsc::channel(under_way);
    let requests = stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|message| (message, receiver))
    });
    let mut next = mine.iter().cycle().map(|lease| LeaseKeepAliveRequest { id: *lease });
    for request in next.by_ref().take(under_way) {
        sender.send(request).await.map_err(std::io::Error::other)?;
    }
    let mut answers = client.lease_keep_alive(requests).await.map_err(std::io::Error::other)?.into_inner();
    while let Some(answer) = answers.message().await.map_err(std::io::Error::other)? {
        if answer.ttl <= 0 {
            return Err(std::io::Error::other("a lease of etcd's is gone"));
        }
        if !tally.add(1) {
            return Ok(());
        }
        if let Some(request) = next.next() {
            sender.send(request).await.map_err(std::io::Error::other)?;
        }
    }
    Err(std::io::Error::other("etcd ended a stream of keep-alives"))
}

async fn grant(client: &mut LeaseClient<Channel>) -> std::io::Result<i64> {
    let answer = client.lease_grant(LeaseGrantRequest { ttl: TTL_S, id: 0 }).await;
    Ok(answer.map_err(std::io::Error::other)?.into_inner().id)
}

async fn revoke(client: &mut LeaseClient<Channel>, lease: i64) -> std::io::Result<()> {
    client.lease_revoke(LeaseRevokeRequest { id: lease }).await.map_err(std::io::Error::other)?;
    Ok(())
}

/// Puts a key if it is not there. Returns the revision at which it did: the token.
async fn take(kv: &mut KvClient<Channel>, key: &str, lease: i64) -> std::io::Result<i64> {
    let put = PutRequest { key: key.into(), value: "agent".into(), lease };
    let look = RangeRequest { key: key.into(), ..RangeRequest::default() };
    let request = TxnRequest {
        compare: vec![created(key, 0)],
        success: vec![RequestOp { request: Some(Request::RequestPut(put)) }],
        failure: vec![RequestOp { request: Some(Request::RequestRange(look)) }],
    };
    let answer = kv.txn(request).await.map_err(std::io::Error::other)?.into_inner();
    match (answer.succeeded, answer.header) {
        (true, Some(header)) => Ok(header.revision),
        (_, _) => Err(std::io::Error::other(format!("{key} is taken in etcd"))),
    }
}

/// Deletes a key if it is still the one that was put.
async fn give_back(kv: &mut KvClient<Channel>, key: &str, revision: i64) -> std::io::Result<()> {
    let delete = DeleteRangeRequest { key: key.into() };
    let request = TxnRequest {
        compare: vec![created(key, revision)],
        success: vec![RequestOp { request: Some(Request::RequestDeleteRange(delete)) }],
        failure: Vec::new(),
    };
    match kv.txn(request).await.map_err(std::io::Error::other)?.into_inner().succeeded {
        true => Ok(()),
        false => Err(std::io::Error::other(format!("{key} was lost in etcd"))),
    }
}

fn created(key: &str, revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Create.into(),
        key: key.into(),
        target_union: Some(TargetUnion::CreateRevision(revision)),
        range_end: Vec::new(),
    }
}
