use std::sync::Arc;
use std::time::Duration;

use ninep_rs::ServerConfig;
use ollie_protocol::{Nonce, NotLetIn, limits};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};

use crate::call::Phase;
use crate::door::Door;
use crate::doorbook::{Peer, reason_of};
use crate::session::Session;
use crate::stdio::{Reader, Stdio, Writer};

/// How much longer than the longest grace the trees have to end.
const LAST_WAIT: Duration = Duration::from_secs(6);

/// Serves the session until standard input ends, and with a lease until that
/// has run out; until somebody asks for the end, or the companion is gone.
/// Then it ends every call and returns. An error is that of a first client that
/// was not let in.
pub(crate) async fn serve(
    session: Arc<Session>,
    stdio: Stdio,
    listener: UnixListener,
    announced: Nonce,
) -> Result<(), NotLetIn> {
    let door = Door::of_stdio(&session, announced);
    let serving = ninep_rs::serve(stdio.reader, stdio.writer, Arc::clone(&door), config());
    let mut refused = Ok(());
    let first = async {
        let end = serving.await;
        if end.is_err() && !door.was_passed() {
            refused = Err(door.reason().unwrap_or_else(|| reason_of(&end)));
        }
    };
    let accepting = tokio::spawn(accept(Arc::clone(&session), listener));
    tokio::select! {
        () = clients(&session, first) => {}
        () = session.ending.notified() => {}
        () = session.spawner.gone() => {}
        () = told_to_end(&session) => {}
    }
    accepting.abort();
    end_calls(&session).await;
    refused
}

/// Returns when the session has no client any more and is not to wait for one.
async fn clients<T>(session: &Session, first: impl Future<Output = T>) {
    first.await;
    if session.lease().is_none() {
        return;
    }
    crate::stdio::let_go();
    let mut guests = session.lobby.guests();
    loop {
        // The sender lives as long as the session.
        let _ = guests.wait_for(|count| *count == 0).await;
        let Some(lease) = session.lease() else {
            return;
        };
        tokio::select! {
            () = tokio::time::sleep(lease) => return,
            _ = guests.wait_for(|count| *count > 0) => {}
        }
    }
}

fn config() -> ServerConfig {
    let mut config = ServerConfig::default();
    config.msize = limits::MSIZE;
    config
}

async fn accept(session: Arc<Session>, listener: UnixListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No descriptor is free: some connection has to end first.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Some(peer) = peer_of(&stream) else {
            continue;
        };
        if let Some(reason) = unwelcome(peer) {
            session.lobby.turn_away(reason, peer);
            continue;
        }
        let visit = session.lobby.enter(peer);
        let dismissed = visit.dismissed();
        let door = Door::of_socket(&session, Arc::clone(&visit));
        tokio::spawn(async move {
            let (reader, writer) = stream.into_split();
            // The types of standard input and output: one server in the program.
            let (reader, writer): (Reader, Writer) = (Box::new(reader), Box::new(writer));
            let reason = tokio::select! {
                end = ninep_rs::serve(reader, writer, Arc::clone(&door), config()) => reason_of(&end),
                () = dismissed => NotLetIn::Displaced,
            };
            visit.ended(door.reason().unwrap_or(reason));
        });
    }
}

/// Who has connected; nobody where the kernel does not say it.
fn peer_of(stream: &UnixStream) -> Option<Peer> {
    let peer = stream.peer_cred().ok()?;
    Some(Peer {
        uid: peer.uid(),
        pid: peer.pid().and_then(|pid| u32::try_from(pid).ok()),
    })
}

/// Only this user may knock, and nothing that toolsrv has started itself: a
/// tool may find the socket's name, and not every kernel can keep it from
/// connecting.
fn unwelcome(peer: Peer) -> Option<NotLetIn> {
    if peer.uid != rustix::process::getuid().as_raw() {
        return Some(NotLetIn::ForeignUser);
    }
    let descendant = peer.pid.is_some_and(ollie_exec::is_descendant);
    descendant.then_some(NotLetIn::OwnTool)
}

/// SIGTERM, SIGINT and SIGHUP: what sshd, systemd and a person send. A session
/// with a lease outlives the login, so it does not obey SIGHUP.
async fn told_to_end(session: &Session) {
    let (Ok(mut term), Ok(mut hangup), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
        signal(SignalKind::interrupt()),
    ) else {
        return std::future::pending().await;
    };
    loop {
        tokio::select! {
            _ = term.recv() => return,
            _ = interrupt.recv() => return,
            _ = hangup.recv() => {
                if session.lease().is_none() {
                    return;
                }
            }
        }
    }
}

/// Ends every call that runs, all at once, and waits until it has.
async fn end_calls(session: &Session) {
    let calls = session.calls.all();
    let running = || calls.iter().filter(|call| call.phase() != Phase::Ended);
    let mut longest = Duration::ZERO;
    for call in running() {
        call.ended().cancelled = true;
        call.end(call.grace()).await;
        longest = longest.max(call.grace());
    }
    let all_ended = async {
        for call in running() {
            // The sender lives as long as the call.
            let _ = call.phases().wait_for(|phase| *phase == Phase::Ended).await;
        }
    };
    // Whatever is left after that, the companion ends without grace.
    let _ = tokio::time::timeout(longest + LAST_WAIT, all_ended).await;
}
