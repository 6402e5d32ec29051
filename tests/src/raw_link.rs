use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Puts a long way between the caller and a stream: every byte arrives `each`
/// later, in either direction, and none delays another. The ends returned are
/// the caller's.
pub fn delayed(
    reader: impl AsyncRead + Unpin + Send + 'static,
    writer: impl AsyncWrite + Unpin + Send + 'static,
    each: Duration,
) -> (DuplexStream, DuplexStream) {
    let (near_read, far_write) = tokio::io::duplex(ROOM);
    let (far_read, near_write) = tokio::io::duplex(ROOM);
    carry(reader, far_write, each);
    carry(far_read, writer, each);
    (near_read, near_write)
}

/// More than is ever on its way in these tests.
const ROOM: usize = 16 * 1024 * 1024;

fn carry(
    mut from: impl AsyncRead + Unpin + Send + 'static,
    mut to: impl AsyncWrite + Unpin + Send + 'static,
    each: Duration,
) {
    let (sender, mut receiver) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let due = Instant::now() + each;
            if sender.send((due, buffer[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    tokio::spawn(async move {
        while let Some((due, bytes)) = receiver.recv().await {
            sleep_until(due).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
}
