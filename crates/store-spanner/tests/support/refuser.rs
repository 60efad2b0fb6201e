//! A server that answers every request with one and the same status: what an emulator, which lets everybody in, cannot.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The kinds of frames that matter here.
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
/// Flags: of an answer to settings or a ping; of headers that are whole and all that there is.
const ACKNOWLEDGED: u8 = 1;
const WHOLE_AND_LAST: u8 = 4 | 1;
/// The length of HTTP/2's opening words, and of what begins every frame.
const PREFACE: usize = 24;
const FRAME_HEAD: usize = 9;

/// The server.
pub(crate) struct Refuser;

impl Refuser {
    /// Starts it; says where it listens.
    pub(crate) async fn start(status: u8, message: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let answer = answer(status, message);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(refuse(client, answer.clone()));
            }
        });
        address
    }
}

async fn refuse(mut client: TcpStream, answer: Vec<u8>) -> std::io::Result<()> {
    client.read_exact(&mut [0; PREFACE]).await?;
    client.write_all(&frame(SETTINGS, 0, [0; 4], &[])).await?;
    loop {
        let mut head = [0; FRAME_HEAD];
        client.read_exact(&mut head).await?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        let mut payload = vec![0; length];
        client.read_exact(&mut payload).await?;
        match kind {
            HEADERS => client.write_all(&frame(HEADERS, WHOLE_AND_LAST, stream, &answer)).await?,
            SETTINGS if flags & ACKNOWLEDGED == 0 => {
                client.write_all(&frame(SETTINGS, ACKNOWLEDGED, [0; 4], &[])).await?;
            }
            PING if flags & ACKNOWLEDGED == 0 => {
                client.write_all(&frame(PING, ACKNOWLEDGED, [0; 4], &payload)).await?;
            }
            _ => {}
        }
    }
}

fn frame(kind: u8, flags: u8, stream: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags, stream[0], stream[1], stream[2], stream[3]];
    [&head, payload].concat()
}

/// The headers of an answer that is nothing but a status, each spelled out.
fn answer(status: u8, message: &str) -> Vec<u8> {
    // The first byte is `:status: 200` in HTTP/2's own table.
    let mut headers = vec![0x88];
    for (name, value) in [
        ("content-type", "application/grpc"),
        ("grpc-status", &status.to_string()),
        ("grpc-message", message),
    ] {
        headers.push(0);
        for text in [name, value] {
            let length = u8::try_from(text.len()).unwrap();
            assert!(length < 127, "longer texts are written otherwise");
            headers.push(length);
            headers.extend_from_slice(text.as_bytes());
        }
    }
    headers
}
