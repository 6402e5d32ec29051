//! `deploy`: toolsrv on many hosts, side by side.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use ollie_deploy::{Arrival, Plan, Remote, Step};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::{Id, JoinSet};

use crate::askpass::Asker;
use crate::error::Error;
use crate::options::DeployOptions;
use crate::printable::printable;
use crate::verbose::Verbose;
use crate::{arrival, doctor, exit, output, setup};

/// Hosts that are deployed to at once.
const AT_ONCE: usize = 16;

/// Goes to every host, puts toolsrv there, lets both sides prove who they
/// are, and ends it again. A line for each host that was named, as it is done.
pub(crate) async fn run(options: &DeployOptions) -> Result<u8, Error> {
    let verbose = Verbose::new(&options.session);
    let paths = setup::own_paths()?;
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let asker = Asker::start(&paths.runtime)?;
    let mut running = Running::default();
    for host in &options.hosts {
        let there = setup::There::new(&options.session, host, &paths).map(|mut there| {
            // Nothing is run there.
            there.plan.project = false;
            there.remote.askpass = asker.as_ref().map(Asker::askpass);
            there
        });
        let places = Arc::clone(&places);
        running.start(host.to_string(), async move {
            // The semaphore is never closed.
            let _place = places.acquire_owned().await;
            let began = Instant::now();
            let outcome = match there {
                Ok(there) => one(&there.remote, &there.plan, verbose).await,
                Err(error) => Err(error),
            };
            (doctor::milliseconds(began.elapsed()), outcome)
        });
    }
    let mut records = Vec::new();
    let mut failed = Vec::new();
    while let Some((host, ms, outcome)) = running.next().await {
        failed.extend(outcome.as_ref().err().map(exit::of_error));
        if options.json {
            records.push(record(&host, ms, &outcome));
        } else {
            output::print(&printable(&line(&host, ms, &outcome)))?;
        }
    }
    if options.json {
        output::print(&format!("{:#}\n", Value::Array(records)))?;
    }
    Ok(exit::of_hosts(&failed))
}

/// How it went on a host, and the milliseconds it took.
type Done<T> = (f64, Result<T, Error>);

/// The work on hosts beside each other: each has an end, whatever becomes of
/// its task.
struct Running<T> {
    tasks: JoinSet<Done<T>>,
    hosts: HashMap<Id, String>,
}

impl<T> Default for Running<T> {
    fn default() -> Self {
        Self {
            tasks: JoinSet::new(),
            hosts: HashMap::new(),
        }
    }
}

impl<T: Send + 'static> Running<T> {
    fn start(&mut self, host: String, work: impl Future<Output = Done<T>> + Send + 'static) {
        let task = self.tasks.spawn(work);
        self.hosts.insert(task.id(), host);
    }

    /// The next that has ended.
    async fn next(&mut self) -> Option<(String, f64, Result<T, Error>)> {
        let (id, ms, outcome) = match self.tasks.join_next_with_id().await? {
            Ok((id, (ms, outcome))) => (id, ms, outcome),
            Err(error) => (error.id(), 0.0, Err(Error::Unfinished(error))),
        };
        let host = self.hosts.remove(&id).unwrap_or_default();
        Some((host, ms, outcome))
    }
}

async fn one(remote: &Remote, plan: &Plan, verbose: Verbose) -> Result<Arrival, Error> {
    let host = remote.target.to_string();
    let tell = move |step: &Step| match verbose.is_on() {
        true => verbose.step(&format!("{host}: {step}")),
        false => verbose.on_the_way(step),
    };
    let (process, channel) = ollie_deploy::spawn_remote(remote, plan, &tell).await?;
    let arrival = process.arrival.clone();
    let server = setup::connect(process, channel, &verbose, None).await?;
    let version = server.conn.version().await;
    server.end().await;
    let version = version?;
    let arrival = arrival.ok_or_else(|| Error::Usage("not a remote".to_owned()))?;
    if version.build != arrival.build {
        return Err(Error::WrongBuild {
            expected: arrival.build,
            found: version.build,
        });
    }
    Ok(arrival)
}

fn line(host: &str, ms: f64, outcome: &Result<Arrival, Error>) -> String {
    match outcome {
        Ok(arrival) => {
            let sent = match arrival.upload {
                Some(upload) => format!("{} bytes ({})", upload.sent, upload.packing),
                None => "nothing".to_owned(),
            };
            format!(
                "{host:<24} ok     {ms:8.1} ms  sent {sent}, {}\n",
                arrival.program
            )
        }
        Err(error) => format!(
            "{host:<24} FAILED {ms:8.1} ms  {}\n{:46}mend it: {}\n",
            error.chain(),
            "",
            doctor::remedy(error)
        ),
    }
}

fn record(host: &str, ms: f64, outcome: &Result<Arrival, Error>) -> Value {
    let mut record = match outcome {
        Ok(arrival) => arrival::record(arrival),
        Err(error) => json!({ "error": error.chain(), "remedy": doctor::remedy(error) }),
    };
    record["name"] = host.into();
    record["ok"] = outcome.is_ok().into();
    record["status"] = outcome.as_ref().err().map_or(0, exit::of_error).into();
    record["ms"] = ms.into();
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_host_whose_task_is_lost_has_its_end_too() {
        let mut running = Running::default();
        running.start("good".to_owned(), async { (1.0, Ok(())) });
        running.start("bad".to_owned(), async { panic!("a defect") });
        let mut ends = Vec::new();
        while let Some((host, _, outcome)) = running.next().await {
            ends.push((host, outcome.map_err(|error| exit::of_error(&error))));
        }
        ends.sort();
        let expected = [("bad", Err(209)), ("good", Ok(()))];
        assert_eq!(ends, expected.map(|(host, end)| (host.to_owned(), end)));
    }
}
