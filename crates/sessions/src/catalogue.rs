use ollie_agent::{Parallel, ToolDef};
use serde_json::json;

/// The tools that every toolsrv has.
pub(crate) fn catalogue() -> Vec<ToolDef> {
    vec![ToolDef {
        name: "shell".to_owned(),
        description: "Run shell code with sh in the working directory, inside the sandbox. \
                      Standard output and standard error come back together."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": { "code": { "type": "string", "description": "The code to run." } },
            "required": ["code"],
        }),
        parallel: Parallel::Write,
    }]
}
