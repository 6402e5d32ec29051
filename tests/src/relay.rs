use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
        let listener = must(TcpListener::bind("127.0.0.1:0"), "listen");
        let own = must(listener.local_addr(), "ask for the port").port();
        let power = Arc::new(Power::default());
        power.limit.store(u64::MAX, Ordering::SeqCst);
        let shared = Arc::clone(&power);
        // It ends with the process of the test.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(host) = TcpStream::connect(("127.0.0.1", port)) else {
                    continue;
                };
                let (Ok(from_host), Ok(to_client)) = (host.try_clone(), client.try_clone()) else {
                    continue;
                };
                let (there, back) = (Arc::clone(&shared), Arc::clone(&shared));
                std::thread::spawn(move || pass(client, host, &there, true));
                std::thread::spawn(move || pass(from_host, to_client, &back, false));
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

fn pass(mut from: TcpStream, mut to: TcpStream, power: &Power, there: bool) {
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
        if to.write_all(&buffer[..count]).is_err() || count < read {
            break;
        }
    }
    if !lost {
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}
