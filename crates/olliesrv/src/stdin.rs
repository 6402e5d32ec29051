use std::io::Read as _;

use bytes::{Bytes, BytesMut};
use ollie_client::Stdin;
use tokio::sync::mpsc;

/// Bytes read at once.
const CHUNK: usize = 128 * 1024;

/// Passes our standard input on until its end, or until the process does not
/// read any more.
pub(crate) async fn pass_on(mut to: Stdin) {
    let mut chunks = read();
    while let Some(chunk) = chunks.recv().await {
        if to.write(chunk).await.is_err() {
            // It ended, or closed its standard input: that is its right.
            return;
        }
    }
    let _ = to.end().await;
}

/// Reads standard input on a thread of its own: a read of a terminal or a
/// pipe cannot be interrupted, so at the end of the program it is left behind.
fn read() -> mpsc::Receiver<Bytes> {
    let (chunks, receiver) = mpsc::channel(2);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut buffer = BytesMut::zeroed(CHUNK);
            match input.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => {
                    buffer.truncate(read);
                    if chunks.blocking_send(buffer.freeze()).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    });
    receiver
}
