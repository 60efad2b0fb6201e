//! A way to the server that can be cut, and that can swallow answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A proxy on a port of its own.
pub(crate) struct Proxy {
    pub(crate) address: String,
    target: String,
    mute: Arc<AtomicBool>,
    running: Option<JoinHandle<()>>,
}

impl Proxy {
    /// A proxy to `target`.
    pub(crate) async fn to(target: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut proxy = Proxy { address, target: target.to_string(), mute: Arc::default(), running: None };
        proxy.serve(listener);
        proxy
    }

    fn serve(&mut self, listener: TcpListener) {
        let (target, mute) = (self.target.clone(), Arc::clone(&self.mute));
        // Dropping the set, with the task, ends all connections.
        self.running = Some(tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(forward(client, target.clone(), Arc::clone(&mute)));
            }
        }));
    }

    /// The server is gone: connections are cut, new ones refused.
    pub(crate) async fn down(&mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
            let _ = running.await;
        }
    }

    /// The server is back.
    pub(crate) async fn up(&mut self) {
        // Its port may be lent out, to somebody's connection, for a moment.
        let listener = loop {
            match TcpListener::bind(&self.address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        };
        self.serve(listener);
    }

    /// From here on requests arrive, but no answer does.
    pub(crate) fn swallow_answers(&self, swallow: bool) {
        self.mute.store(swallow, Ordering::SeqCst);
    }
}

async fn forward(client: TcpStream, target: String, mute: Arc<AtomicBool>) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = async {
        let mut buffer = vec![0; 65_536];
        while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
            if !mute.load(Ordering::SeqCst) && to_client.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
        () = answers => {}
    }
}
