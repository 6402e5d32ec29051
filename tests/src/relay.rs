use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::must::must;

/// A port of loopback that leads to another one, over which the test has
/// power. What is connected stays so until its peers end, or it is cut.
#[derive(Debug)]
pub struct Relay {
    port: u16,
    power: Arc<Power>,
}

#[derive(Debug, Default)]
struct Power {
    /// Whatever comes is read and thrown away, as if packets were lost.
    lost: AtomicBool,
    /// Bytes towards the host after which the connection is cut.
    limit: AtomicU64,
    /// Bytes that have gone to the host.
    sent: AtomicU64,
}

impl Relay {
    /// One to this port, without a limit.
    #[must_use]
    pub fn to(port: u16) -> Self {
        Self::far(port, Duration::ZERO)
    }

    /// One to this port as if it were so far away: a round trip takes this
    /// long, that of the connection itself (TCP's SYN) included. Nothing else
    /// of a long way is imitated, no loss and no limit of bandwidth.
    #[must_use]
    pub fn far(port: u16, round_trip: Duration) -> Self {
        let listener = must(TcpListener::bind("127.0.0.1:0"), "listen");
        let own = must(listener.local_addr(), "ask for the port").port();
        let power = Arc::new(Power::default());
        power.limit.store(u64::MAX, Ordering::SeqCst);
        let shared = Arc::clone(&power);
        // It ends with the process of the test.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let power = Arc::clone(&shared);
                std::thread::spawn(move || carry(client, port, round_trip, &power));
            }
        });
        Self { port: own, power }
    }

    /// Where clients connect.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts the connection after so many more bytes towards the host.
    pub fn cut_after(&self, bytes: u64) {
        self.power.sent.store(0, Ordering::SeqCst);
        self.power.limit.store(bytes, Ordering::SeqCst);
    }

    /// From now on nothing arrives, in either direction, and no end is to be
    /// seen; or all is well again for new connections.
    pub fn lose_everything(&self, lost: bool) {
        self.power.lost.store(lost, Ordering::SeqCst);
    }

    /// Bytes that have gone to the host.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.power.sent.load(Ordering::SeqCst)
    }
}

/// Connects, and starts what passes on in each direction.
fn carry(client: TcpStream, port: u16, round_trip: Duration, power: &Arc<Power>) {
    std::thread::sleep(round_trip);
    let Ok(host) = TcpStream::connect(("127.0.0.1", port)) else {
        return;
    };
    // A relay that waits to fill its packets would add what no link does.
    let _ = (client.set_nodelay(true), host.set_nodelay(true));
    let (Ok(from_host), Ok(to_client)) = (host.try_clone(), client.try_clone()) else {
        return;
    };
    for (from, to, there) in [(client, host, true), (from_host, to_client, false)] {
        let power = Arc::clone(power);
        std::thread::spawn(move || pass(from, to, &power, there, round_trip / 2));
    }
}

/// What is on its way: when it arrives, and what it is.
type OnItsWay = (Instant, Vec<u8>);

/// Pieces that may be on their way: 16 MiB, more than ssh's windows.
const PIECES: usize = 4096;

fn pass(mut from: TcpStream, to: TcpStream, power: &Power, there: bool, each: Duration) {
    let (Ok(from_too), Ok(to_too)) = (from.try_clone(), to.try_clone()) else {
        return;
    };
    let (sender, receiver) = std::sync::mpsc::sync_channel(PIECES);
    let arriving = std::thread::spawn(move || arrive(&receiver, to));
    let mut buffer = [0; 4096];
    let mut lost = false;
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        // What has lost a packet has lost them all.
        lost |= power.lost.load(Ordering::SeqCst);
        if lost {
            continue;
        }
        let mut count = read;
        if there {
            let limit = power.limit.load(Ordering::SeqCst);
            let sent = power.sent.fetch_add(read as u64, Ordering::SeqCst);
            let left = usize::try_from(limit.saturating_sub(sent)).unwrap_or(usize::MAX);
            count = read.min(left);
        }
        let piece = (Instant::now() + each, buffer[..count].to_vec());
        if sender.send(piece).is_err() || count < read {
            break;
        }
    }
    drop(sender);
    let _ = arriving.join();
    if !lost {
        let _ = to_too.shutdown(Shutdown::Both);
        let _ = from_too.shutdown(Shutdown::Both);
    }
}

fn arrive(pieces: &Receiver<OnItsWay>, mut to: TcpStream) {
    while let Ok((due, piece)) = pieces.recv() {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&piece).is_err() {
            return;
        }
    }
}
