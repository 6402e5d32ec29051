use std::io::{self, Read as _};

use bytes::{Bytes, BytesMut};
use ollie_client::Stdin;
use tokio::sync::mpsc;

/// Bytes read at once.
const CHUNK: usize = 128 * 1024;

/// Passes our standard input on until its end, or until the process does not
/// read any more, which is its right.
///
/// # Errors
/// If our input cannot be read on: the process sees its end all the same.
pub(crate) async fn pass_on(mut to: Stdin) -> io::Result<()> {
    let mut chunks = read();
    let mut result = Ok(());
    while let Some(chunk) = chunks.recv().await {
        match chunk {
            Ok(chunk) => {
                if to.write(chunk).await.is_err() {
                    return Ok(());
                }
            }
            Err(error) => result = Err(error),
        }
    }
    let _ = to.end().await;
    result
}

/// Reads standard input on a thread of its own: a read of a terminal or a
/// pipe cannot be interrupted, so at the end of the program it is left behind.
fn read() -> mpsc::Receiver<io::Result<Bytes>> {
    let (chunks, receiver) = mpsc::channel(2);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut buffer = BytesMut::zeroed(CHUNK);
            match input.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => {
                    buffer.truncate(read);
                    if chunks.blocking_send(Ok(buffer.freeze())).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let _ = chunks.blocking_send(Err(error));
                    return;
                }
            }
        }
    });
    receiver
}
