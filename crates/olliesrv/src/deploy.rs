//! `deploy`: toolsrv on many hosts, side by side.

use std::sync::Arc;
use std::time::Instant;

use ollie_deploy::{Arrival, Plan, Remote, Step};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::askpass::Asker;
use crate::error::Error;
use crate::options::DeployOptions;
use crate::printable::printable;
use crate::verbose::Verbose;
use crate::{arrival, doctor, exit, output, setup};

/// Hosts that are deployed to at once.
const AT_ONCE: usize = 16;

/// Goes to every host, puts toolsrv there, lets both sides prove who they
/// are, and ends it again. A line for each host as it is done.
pub(crate) async fn run(options: &DeployOptions) -> Result<u8, Error> {
    let verbose = Verbose::new(&options.session);
    let paths = setup::own_paths()?;
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let asker = Asker::start(&paths.runtime)?;
    let mut running = JoinSet::new();
    for host in &options.hosts {
        let mut there = setup::There::new(&options.session, host, &paths)?;
        // Nothing is run there.
        there.plan.project = false;
        there.remote.askpass = asker.as_ref().map(Asker::askpass);
        let places = Arc::clone(&places);
        running.spawn(async move {
            // The semaphore is never closed.
            let _place = places.acquire_owned().await;
            let began = Instant::now();
            let outcome = one(&there.remote, &there.plan, verbose).await;
            let ms = doctor::milliseconds(began.elapsed());
            (there.name, ms, outcome)
        });
    }
    let mut records = Vec::new();
    let mut failed = 0;
    while let Some(done) = running.join_next().await {
        let Ok((host, ms, outcome)) = done else {
            failed += 1;
            continue;
        };
        failed += usize::from(outcome.is_err());
        if options.json {
            records.push(record(&host, ms, &outcome));
        } else {
            output::print(&printable(&line(&host, ms, &outcome)))?;
        }
    }
    if options.json {
        output::print(&format!("{:#}\n", Value::Array(records)))?;
    }
    Ok(if failed == 0 { 0 } else { exit::NOT_DEPLOYED })
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
    record["ms"] = ms.into();
    record
}
