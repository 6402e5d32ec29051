//! `olliesrv serve`: sessions for any number of clients, until a signal.

use std::sync::Arc;

use ninep_rs::ServerConfig;
use ollie_sessions::{Sessions, Settings, Tree};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use crate::doorway::{Doorway, notify};
use crate::error::Error;
use crate::options::ServeOptions;
use crate::signals::Signals;
use crate::{house, output, setup};

/// Serves until SIGTERM, SIGINT or SIGHUP.
pub(crate) async fn run(options: &ServeOptions) -> Result<u8, Error> {
    let mut signals = Signals::new()?;
    let told = std::env::var_os("NOTIFY_SOCKET");
    let door = door()?;
    let defaults = Settings {
        backend: options.backend.clone().unwrap_or_default(),
        model: options.model.clone().unwrap_or_default(),
        ..Settings::default()
    };
    let connections = house::connections()?;
    let shared = Arc::clone(&connections);
    let sessions = Sessions::new(house::house(&options.ground, defaults, None, shared, true)?);
    sessions.restore().map_err(Error::Sessions)?;
    let count = sessions.all().len();
    output::note(&format!("serving {count} sessions"));
    notify(told.as_deref(), "READY=1");
    let tree = Arc::new(Tree::new(Arc::clone(&sessions)));
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            stream = door.accept() => {
                clients.spawn(serve(stream, Arc::clone(&tree)));
            }
            _ = clients.join_next(), if !clients.is_empty() => {}
            _ = signals.next() => break,
        }
    }
    notify(told.as_deref(), "STOPPING=1");
    // A client that reads to the end sees what the end brings.
    tokio::select! {
        () = sessions.end() => {}
        _ = signals.next() => {}
    }
    clients.shutdown().await;
    // They are in the directory of the socket, which goes with it.
    connections.close();
    drop(door);
    Ok(0)
}

/// The socket that systemd gave, or one of our own.
fn door() -> Result<Doorway, Error> {
    let mut given = listenfd::ListenFd::from_env();
    let listener = given.take_unix_listener(0).map_err(|source| Error::Io {
        action: "take the socket of systemd",
        source,
    })?;
    match listener {
        Some(listener) => Doorway::given(listener),
        None => Doorway::open(&setup::own_paths()?.doorway),
    }
}

async fn serve(stream: UnixStream, tree: Arc<Tree>) {
    let mut config = ServerConfig::default();
    // Whoever waits for ten sessions at once waits for thirty files.
    config.requests = 1024;
    let (reader, writer) = stream.into_split();
    // How a connection ends is its own matter.
    let _ = ninep_rs::serve(reader, writer, tree, config).await;
}
