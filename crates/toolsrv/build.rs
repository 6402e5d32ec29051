//! The tools that toolsrv brings along: written as YAML in `tools/`, embedded
//! as JSON, so that no YAML parser is on anybody's host.

use std::path::Path;

use ollie_protocol::ToolOrigin;

fn main() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools");
    println!("cargo::rerun-if-changed={}", source.display());
    let Ok(out) = std::env::var("OUT_DIR") else {
        return println!("cargo::error=cargo names no OUT_DIR");
    };
    let found = match ollie_catalogue::read(&source, ToolOrigin::Standard) {
        Ok(found) => found,
        Err(error) => return println!("cargo::error={}", error.chain()),
    };
    for (_, error) in &found.broken {
        println!("cargo::error={}", error.chain());
    }
    if found.tools.is_empty() {
        println!("cargo::error={} holds no tools", source.display());
    }
    let definitions: Vec<_> = found.tools.iter().map(|it| it.definition(true)).collect();
    let written = serde_json::to_vec(&definitions)
        .map_err(std::io::Error::other)
        .and_then(|json| std::fs::write(Path::new(&out).join("tools.json"), json));
    if let Err(error) = written {
        println!("cargo::error=cannot write tools.json: {error}");
    }
}
