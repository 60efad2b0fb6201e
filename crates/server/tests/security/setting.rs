//! A server with an operator and as many tokens as a test wants.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use baton::{Coordinator, Memory, NewToken};
use baton_election::delegation::Delegation;
use baton_election::operator::OperatorKey;
use baton_election::time::Span;
use baton_election::tokens::{Role, TokenEntry};
use baton_election::{ContentHash, Credential, ElectionName, Incarnation, LeaseKey, StoreInfo};
use baton_server::{Listeners, Options, Server, Socket};
use baton_store::MemoryStore;
use serde_json::{Value, json};

/// A server, and the store behind it.
pub(crate) struct Setting {
    pub(crate) address: SocketAddr,
    /// Its Unix socket, and the folder that it is in.
    pub(crate) socket: PathBuf,
    _folder: tempfile::TempDir,
    pub(crate) operator: OperatorKey,
    /// Goes to the store itself, as an operator does while no server runs, and as another server would.
    pub(crate) store: Coordinator,
    pub(crate) info: Arc<StoreInfo>,
}

/// The code of a link.
pub(crate) fn code(seed: u8) -> String {
    format!("{seed:02x}").repeat(32)
}

/// A token of a role, and what it is for.
pub(crate) fn token(role: Role) -> NewToken {
    NewToken {
        role,
        agents: Vec::new(),
        elections: Vec::new(),
        resources: Vec::new(),
        note: String::new(),
        expires: None,
    }
}

impl Setting {
    /// One where everybody must show a token.
    pub(crate) async fn guarded() -> Setting {
        Setting::new(Options { require_tokens: true, ..Options::default() }).await
    }

    pub(crate) async fn new(options: Options) -> Setting {
        let store = MemoryStore::default();
        let coordinator = Coordinator::with_store(Arc::new(store.clone()), Memory::new());
        let operator = OperatorKey::from_seed([7; 32]);
        coordinator.operators().enrol(&operator).await.unwrap();
        coordinator.tokens().create(&operator, &token(Role::Operator)).await.unwrap();
        let listener = Server::listen("127.0.0.1:0".parse().unwrap(), &options).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let socket = Socket::bind(&folder.path().join("s")).await.unwrap();
        let path = socket.path().to_path_buf();
        let listening = Listeners::from(listener).and(socket);
        let server = Server::start(listening, Arc::new(store), options).await.unwrap();
        let address = server.listening().address().unwrap();
        tokio::spawn(server.serve(std::future::pending()));
        let info = coordinator.info().await.unwrap();
        Setting { address, socket: path, _folder: folder, operator, store: coordinator, info }
    }

    pub(crate) async fn create(&self, new: &NewToken) -> (String, TokenEntry) {
        let (secret, entry, _) = self.store.tokens().create(&self.operator, new).await.unwrap();
        // The server hears of it from the store.
        let text = secret.reveal().to_string();
        let mut tries = 0;
        while super::client::get(self.address, "/v1/store", Some(&text)).await.status == 401 {
            tries += 1;
            assert!(tries < 1_000, "the server does not hear of the token");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        (text, entry)
    }

    /// What tells this run of the server from others.
    pub(crate) async fn run(&self) -> String {
        let token = self.token(Role::Operator).await;
        let me = super::client::get(self.address, "/v1/sign-in", Some(&token)).await.json();
        me["server"].as_str().unwrap().to_string()
    }

    /// That the browser whose key has this seed may act, for an hour. The code of its link is the seed in hexadecimal digits.
    pub(crate) fn delegation(&self, run: &str, seed: u8) -> Delegation {
        Delegation {
            store: self.info.id,
            server: run.to_string(),
            // As the tests' client calls it.
            origin: "http://localhost".to_string(),
            key: OperatorKey::from_seed([seed; 32]).public(),
            code: ContentHash::of(code(seed).as_bytes()),
            lasts: Span::secs(3_600),
        }
    }

    pub(crate) async fn token(&self, role: Role) -> String {
        self.create(&token(role)).await.0
    }
}

pub(crate) fn credential(number: u8) -> Credential {
    Credential { incarnation: Incarnation([number; 8]), key: LeaseKey([number; 16]) }
}

/// The body of a request for the lease.
pub(crate) fn acquire(agent: &str, number: u8) -> Value {
    let credential = credential(number);
    json!({ "agent": agent, "incarnation": credential.incarnation, "key_hash": credential.key.hash(),
            "ttl_ms": Span::secs(60).as_millis() })
}

pub(crate) fn election(name: &str) -> ElectionName {
    ElectionName::new(name).unwrap()
}
