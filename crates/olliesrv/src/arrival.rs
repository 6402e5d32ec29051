//! What is told of a deployment where a program reads it.

use ollie_deploy::Arrival;
use serde_json::{Map, Value, json};

/// The record: the first line of `exec HOST --json`, and one of each host of
/// `deploy --json`.
pub(crate) fn record(arrival: &Arrival) -> Value {
    let facts: Map<String, Value> = arrival
        .facts
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().into()))
        .collect();
    let refused: Vec<Value> = arrival
        .refused
        .iter()
        .map(|(place, reason)| json!({ "place": place, "reason": reason }))
        .collect();
    json!({
        "type": "session",
        "host": arrival.target,
        "transport": arrival.transport.to_string(),
        "connection": arrival.connection.to_string(),
        "ssh": arrival.attempts,
        "sent": arrival.upload.map_or(0, |upload| upload.sent),
        "packing": arrival.upload.map(|upload| upload.packing.to_string()),
        "toolsrv": arrival.program,
        "build": arrival.build,
        "facts": facts,
        "refused": refused,
        "noise": arrival.noise,
    })
}
