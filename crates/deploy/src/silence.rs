use std::time::Duration;

use ollie_client::ToolsrvConn;
use tokio::time::Instant;

/// After how much silence a sign of life is asked for.
const PING: Duration = Duration::from_secs(3);
/// After how much silence nobody is believed to be there.
const SILENCE: Duration = Duration::from_secs(12);

/// Returns when nothing came for 12 s, although it was asked for, and how
/// long it was. A connection through which much data crawls is alive, however
/// late the answer to a question behind that data comes.
pub(crate) async fn silence(conn: &ToolsrvConn) -> Duration {
    // The silence before this does not count: nothing was asked then.
    let began = Instant::now();
    let quiet = || conn.last_heard().elapsed().min(began.elapsed());
    let mut asked = None;
    loop {
        if quiet() >= SILENCE {
            return quiet();
        }
        if quiet() >= PING && asked.is_none() {
            asked = Some(Box::pin(conn.ping()));
        }
        let pause = tokio::time::sleep(PING);
        let Some(ping) = &mut asked else {
            pause.await;
            continue;
        };
        let answered = tokio::select! {
            // That the connection has ended is for others to tell.
            _ = ping => true,
            () = pause => false,
        };
        if answered {
            asked = None;
            tokio::time::sleep(PING).await;
        }
    }
}
