//! What this program prints. Nothing else in it writes to a standard stream.

use std::io::{self, Write as _};
use std::thread::JoinHandle;

use bytes::Bytes;
use ollie_protocol::Stream;
use tokio::sync::{Notify, mpsc};

/// Chunks that wait for a slow reader, at most 256 KiB each.
const WAITING: usize = 4;

/// Writes a call's output from a thread of its own, so that a reader that
/// blocks does not keep a Ctrl-C from being heard. What it cannot write yet
/// slows the call down.
pub(crate) struct Output {
    chunks: mpsc::Sender<(Stream, Bytes)>,
    thread: JoinHandle<io::Result<()>>,
    broken: std::sync::Arc<Notify>,
}

impl Output {
    pub(crate) fn new() -> Self {
        let (chunks, mut waiting) = mpsc::channel::<(Stream, Bytes)>(WAITING);
        let broken = std::sync::Arc::new(Notify::new());
        let told = std::sync::Arc::clone(&broken);
        let thread = std::thread::spawn(move || {
            while let Some((stream, bytes)) = waiting.blocking_recv() {
                let written = write(stream, &bytes);
                if written.is_err() {
                    told.notify_one();
                    return written;
                }
            }
            Ok(())
        });
        Self {
            chunks,
            thread,
            broken,
        }
    }

    /// Hands a chunk to the thread once there is room; until then it stays
    /// where it is, also if this is dropped. After a failure it does nothing:
    /// [`Output::finish`] tells of it.
    pub(crate) async fn write(&self, chunk: &mut Option<(Stream, Bytes)>) {
        let room = self.chunks.reserve().await;
        if let (Some(chunk), Ok(room)) = (chunk.take(), room) {
            room.send(chunk);
        }
    }

    /// Returns when writing has failed: nobody reads any more.
    pub(crate) fn broken(&self) -> std::sync::Arc<Notify> {
        std::sync::Arc::clone(&self.broken)
    }

    /// Waits until everything is written.
    pub(crate) fn finish(self) -> io::Result<()> {
        drop(self.chunks);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the writing thread failed")))
    }
}

fn write(stream: Stream, bytes: &[u8]) -> io::Result<()> {
    match stream {
        Stream::Stdout => {
            let mut out = io::stdout().lock();
            out.write_all(bytes)?;
            out.flush()
        }
        Stream::Stderr => io::stderr().lock().write_all(bytes),
    }
}

/// Prints text on standard output.
pub(crate) fn print(text: &str) -> Result<(), crate::error::Error> {
    write(Stream::Stdout, text.as_bytes()).map_err(crate::error::Error::Output)
}

/// Prints bytes on standard output, as they are.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), crate::error::Error> {
    write(Stream::Stdout, bytes).map_err(crate::error::Error::Output)
}

/// Prints a line on standard error, for the person.
pub(crate) fn note(line: &str) {
    // If standard error is closed there is nobody to tell.
    let _ = writeln!(io::stderr().lock(), "ollie: {line}");
}

/// Prints an error of ours.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "olliesrv: {text}");
}
