//! Serves a tree in memory on a Unix socket, to anybody who can reach it: `ramfs SOCKET`.
//!
//! Made for trying other 9P clients against the engine; there is no authentication. It writes "listening" when it can
//! be connected to, and ends with its standard input.
#![expect(clippy::print_stdout, reason = "an example program")]

mod tree;

use std::sync::Arc;

use ninep_rs::{ServerConfig, serve};
use tokio::net::UnixListener;
use tree::RamFs;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let socket = std::env::args_os().nth(1).ok_or("usage: ramfs SOCKET")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = UnixListener::bind(&socket)?;
        println!("listening");
        let (ended, end) = tokio::sync::oneshot::channel();
        // Not a task of the runtime: its end must not wait for a read of standard input.
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            let _ = ended.send(());
        });
        let tree = Arc::new(RamFs::new("none"));
        let serving = async {
            loop {
                let (stream, _) = listener.accept().await?;
                let (reader, writer) = stream.into_split();
                let tree = Arc::clone(&tree);
                tokio::spawn(serve(reader, writer, tree, ServerConfig::default()));
            }
        };
        let result: std::io::Result<()> = tokio::select! {
            result = serving => result,
            _ = end => Ok(()),
        };
        std::fs::remove_file(&socket)?;
        Ok(result?)
    })
}
