use ollie_protocol::SandboxReport;
use ollie_sandbox::Policy;
use serde_json::Value;

use crate::error::Error;
use crate::options::ShowOptions;
use crate::output;
use crate::printable::printable;
use crate::setup::setup_tool_server;
use crate::verbose::Verbose;

/// Prints the policy as the session's toolsrv resolved it.
pub(crate) async fn show(options: &ShowOptions) -> Result<u8, Error> {
    let verbose = Verbose::new(&options.session);
    let server = setup_tool_server(&options.session, options.host.as_ref(), &verbose).await?;
    let record = server.conn.policy::<Value>().await;
    server.end().await;
    let record = record?;
    if options.json {
        output::print(&format!("{record:#}\n"))?;
        return Ok(0);
    }
    let understood = |value: Option<&Value>| value.cloned().unwrap_or(Value::Null);
    let malformed = |source| ollie_client::Error::Malformed {
        record: "policy record",
        source,
    };
    let mut policy: Policy =
        serde_json::from_value(understood(record.get("policy"))).map_err(malformed)?;
    let absent = if options.all { 0 } else { policy.fold_absent() };
    let mut text = policy.to_string();
    if absent > 0 {
        text.push_str(&format!(
            "\n{absent} more rules are about what is not on this host; --all shows them\n"
        ));
    }
    match (record.get("enforcement"), record.get("refused")) {
        (Some(report), _) => {
            let report: SandboxReport =
                serde_json::from_value(report.clone()).map_err(malformed)?;
            text.push_str(&enforcement(&report));
        }
        (None, Some(Value::String(reason))) => {
            text.push_str(&format!("\nenforced: nothing can run: {reason}\n"));
        }
        (None, _) => {}
    }
    output::print(&printable(&text))?;
    Ok(0)
}

/// What of the policy is in force, as text.
fn enforcement(report: &SandboxReport) -> String {
    let how_much = match report.enforced {
        ollie_protocol::Enforced::Full => "all of it",
        ollie_protocol::Enforced::Partial => "in part",
        ollie_protocol::Enforced::None => "nothing (--yolo)",
    };
    let mut text = format!(
        "\nenforced: {how_much}, by Landlock ABI {} and seccomp\n",
        report.landlock_abi
    );
    for sentence in &report.degraded {
        text.push_str(&format!("  missing: {sentence}\n"));
    }
    text.push_str(&format!(
        "  {} variables of the environment are withheld\n",
        report.env_withheld
    ));
    text
}
