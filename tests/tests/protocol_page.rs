//! docs/protocol.md holds what it says.

use ollie_tests::{Toolsrv, World, gap, shell_call, workspace};

fn page() -> String {
    std::fs::read_to_string(workspace().join("docs/protocol.md")).expect("the page is there")
}

#[test]
fn the_client_on_the_page_runs_a_command() {
    let client = page()
        .split_once("```python\n")
        .and_then(|(_, rest)| Some(rest.split_once("```")?.0.to_owned()))
        .expect("the page has a client");
    let world = World::ordinary();
    let path = world.path();
    let mut places = std::env::split_paths(&path).map(|at| at.join("python3"));
    if !places.any(|python| python.exists()) {
        return gap("the client in docs/protocol.md", "python3 is not installed");
    }
    let client = world.write("home/client.py", client);
    let toolsrv = Toolsrv::program(&world);
    let out = world.command("python3").arg(client).arg(toolsrv).run().ok();
    assert_eq!(out, "Linux\n");
}

/// Every file is in the table, and everything in the table is there.
#[tokio::test]
async fn the_tree_is_the_one_on_the_page() {
    let page = page();
    let table = page
        .split_once("\n## The tree\n")
        .and_then(|(_, rest)| rest.split_once("\n## "))
        .expect("the page has a tree")
        .0;
    let mut documented: Vec<String> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once(" |"))
        .flat_map(|(names, _)| {
            let names: Vec<_> = names.split('`').step_by(2).collect();
            let at = names[0].rsplit_once('/').map_or("", |(at, _)| at);
            let full = |name: &&str| match name.contains('/') || at.is_empty() {
                true => (*name).to_owned(),
                false => format!("{at}/{name}"),
            };
            names
                .iter()
                .filter(|n| !n.is_empty())
                .map(full)
                .collect::<Vec<_>>()
        })
        .collect();
    documented.sort();

    let world = Toolsrv::world();
    let mut toolsrv = Toolsrv::start(&world);
    let conn = toolsrv.first().await;
    // One that asks has every file that a call can have.
    let mut call = shell_call("ID", "true");
    call.bypass = Some("to be looked at".to_owned());
    conn.start(&call).await.unwrap();
    let mut served = Vec::new();
    let mut directories = vec![String::new()];
    while let Some(directory) = directories.pop() {
        for stat in conn.list(&directory).await.unwrap() {
            let path = format!("{directory}{}", stat.name);
            match stat.qid.is_dir() {
                true => directories.push(format!("{path}/")),
                false => served.push(path),
            }
        }
    }
    // Every tool has the same files.
    let tools: Vec<_> = conn.tools().await.unwrap();
    for path in &mut served {
        for tool in &tools {
            *path = path.replace(&format!("tools/{}/", tool.spec.name), "tools/NAME/");
        }
    }
    served.sort();
    served.dedup();
    assert_eq!(served, documented);
}
