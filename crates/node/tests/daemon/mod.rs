//! Pilot daemons that exist in this process only: they speak the framing of the real ones, and pass datagrams on to each other.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

type Frames = mpsc::UnboundedSender<Vec<u8>>;

/// All daemons: where each port leads, and what was published.
#[derive(Clone, Default)]
pub(crate) struct Network(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    ports: HashMap<(u32, u16), Frames>,
    published: Vec<(u32, String)>,
    /// All datagrams: from, to, and what they say.
    delivered: Vec<(u32, u32, Vec<u8>)>,
}

/// One daemon. Dropped, it is gone with all its connections.
pub(crate) struct Daemon {
    pub(crate) socket: PathBuf,
    task: JoinHandle<()>,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Network {
    /// Starts the daemon of a node.
    pub(crate) fn daemon(&self, folder: &Path, node: u32) -> Daemon {
        let socket = folder.join(format!("{node}.sock"));
        let listener = UnixListener::bind(&socket).unwrap();
        let network = self.clone();
        let task = tokio::spawn(async move {
            // Connections end with the daemon.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(network.clone().serve(node, stream));
            }
        });
        Daemon { socket, task }
    }

    /// What was published at a node, without the subscriptions.
    pub(crate) fn published(&self, node: u32) -> Vec<String> {
        let state = self.0.lock().unwrap();
        let of_node = state.published.iter().filter(|(at, text)| *at == node && !text.is_empty());
        of_node.map(|(_, text)| text.clone()).collect()
    }

    /// Delivers a datagram that no member sent.
    pub(crate) fn forge(&self, from: u32, to: u32, port: u16, data: &[u8]) {
        self.deliver(from, to, port, data);
    }

    /// All that one node has sent to another so far.
    pub(crate) fn delivered(&self, from: u32, to: u32) -> Vec<Vec<u8>> {
        let state = self.0.lock().unwrap();
        let between = state.delivered.iter().filter(|(a, b, _)| (*a, *b) == (from, to));
        between.map(|(_, _, data)| data.clone()).collect()
    }

    fn deliver(&self, from: u32, to: u32, port: u16, data: &[u8]) {
        self.0.lock().unwrap().delivered.push((from, to, data.to_vec()));
        let mut frame = vec![0x0c, 0, 0];
        frame.extend(from.to_be_bytes());
        frame.extend([0xc0, 0]);
        frame.extend(port.to_be_bytes());
        frame.extend(data);
        if let Some(frames) = self.0.lock().unwrap().ports.get(&(to, port)) {
            let _ = frames.send(frame);
        }
    }

    async fn serve(self, node: u32, stream: UnixStream) {
        let (mut reader, mut writer) = stream.into_split();
        let (frames, mut waiting) = mpsc::unbounded_channel::<Vec<u8>>();
        let writing = async {
            while let Some(frame) = waiting.recv().await {
                let length = u32::try_from(frame.len()).unwrap();
                if writer.write_all(&length.to_be_bytes()).await.is_err()
                    || writer.write_all(&frame).await.is_err()
                {
                    return;
                }
            }
        };
        let reading = async {
            while let Ok(length) = reader.read_u32().await {
                let mut frame = vec![0; usize::try_from(length).unwrap()];
                if reader.read_exact(&mut frame).await.is_err() {
                    break;
                }
                self.request(node, &frame, &frames);
            }
        };
        tokio::select! {
            () = writing => {}
            () = reading => {}
        }
        self.0.lock().unwrap().ports.retain(|_, held| !held.same_channel(&frames));
    }

    fn request(&self, node: u32, frame: &[u8], frames: &Frames) {
        let number = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
        let port = |at: usize| u16::from_be_bytes(frame[at..at + 2].try_into().unwrap());
        let reply = match frame[0] {
            0x01 => {
                let mut state = self.0.lock().unwrap();
                if state.ports.get(&(node, port(1))).is_some_and(|held| !held.is_closed()) {
                    [&[0x0a, 0, 1][..], b"port is bound already"].concat()
                } else {
                    state.ports.insert((node, port(1)), frames.clone());
                    [&[0x02][..], &frame[1..3]].concat()
                }
            }
            0x03 => vec![0x04, 0, 0, 0, 9],
            0x06 => {
                let topic = usize::from(port(5));
                let text = String::from_utf8(frame[5 + 2 + topic + 4..].to_vec()).unwrap();
                self.0.lock().unwrap().published.push((node, text));
                return;
            }
            0x0b => return self.deliver(node, number(3), port(7), &frame[9..]),
            0x0d => {
                let address = format!("0:0000.{:04X}.{:04X}", node >> 16, node & 0xffff);
                [&[0x0e][..], format!("{{\"address\":\"{address}\"}}").as_bytes()].concat()
            }
            other => panic!("a request that no daemon knows: {other}"),
        };
        let _ = frames.send(reply);
    }
}
