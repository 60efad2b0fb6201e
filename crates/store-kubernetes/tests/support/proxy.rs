//! Something between a client and the apiserver that loses answers, or everything.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyState {
    /// All is well.
    Open,
    /// Requests arrive, answers do not.
    Mute,
    /// Connections are closed, and new ones at once.
    Cut,
}

pub(crate) struct Proxy {
    line: watch::Sender<ProxyState>,
    folder: tempfile::TempDir,
}

impl Proxy {
    /// In front of the server that a kubeconfig names.
    pub(crate) async fn before(kubeconfig: &str) -> Proxy {
        let text = std::fs::read_to_string(kubeconfig).unwrap();
        let server =
            text.split("server: https://").nth(1).unwrap().split_whitespace().next().unwrap().to_string();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        std::fs::write(folder.path().join("kubeconfig"), text.replace(&server, &address.to_string()))
            .unwrap();
        let (line, state) = watch::channel(ProxyState::Open);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *state.borrow() == ProxyState::Cut {
                    continue;
                }
                let server = TcpStream::connect(&server).await.unwrap();
                tokio::spawn(join(client, server, state.clone()));
            }
        });
        Proxy { line, folder }
    }

    pub(crate) fn kubeconfig(&self) -> String {
        self.folder.path().join("kubeconfig").display().to_string()
    }

    pub(crate) fn set(&self, line: ProxyState) {
        self.line.send_replace(line);
    }
}

async fn join(client: TcpStream, server: TcpStream, mut state: watch::Receiver<ProxyState>) {
    let ((mut from_client, to_client), (from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let requests = async { tokio::io::copy(&mut from_client, &mut to_server).await };
    let answers = answer(from_server, to_client, state.clone());
    tokio::select! {
        _ = requests => {}
        () = answers => {}
        _ = state.wait_for(|line| *line == ProxyState::Cut) => {}
    }
}

async fn answer(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut state: watch::Receiver<ProxyState>,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let _ = state.wait_for(|line| *line != ProxyState::Mute).await;
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
