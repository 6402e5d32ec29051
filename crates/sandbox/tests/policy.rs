//! Policies from text to verdict, on a host made of a temporary directory.
#![cfg(feature = "parse")]
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are not known as tests to clippy"
)]

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use ollie_sandbox::{
    Document, Error, HostView, Layer, Layered, MAX_RULES, Operation, Policy, Source, layer, parse,
};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{ProptestConfig, Strategy, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;

struct Host {
    _keep: tempfile::TempDir,
    home: PathBuf,
}

impl Host {
    fn new(files: &[&str]) -> Self {
        let keep = tempfile::tempdir().unwrap();
        let home = keep.path().canonicalize().unwrap().join("home");
        fs::create_dir_all(home.join("project")).unwrap();
        for file in files {
            match file.strip_suffix('/') {
                Some(dir) => fs::create_dir_all(home.join(dir)).unwrap(),
                None => {
                    fs::create_dir_all(home.join(file).parent().unwrap()).unwrap();
                    fs::write(home.join(file), "").unwrap();
                }
            }
        }
        Self { _keep: keep, home }
    }

    fn expand(&self, layered: &Layered, cwd: &str) -> Result<Policy, Error> {
        layered.expand(&HostView {
            cwd: &self.home.join(cwd),
            home: Some(&self.home),
            tmpdir: None,
            path: Some(OsStr::new("/usr/bin:/bin")),
            tools_path: None,
            program: None,
            ollie_roots: &[],
            env: &|_| None,
            identity: None,
        })
    }

    fn policy(&self, yaml: &str) -> Policy {
        self.expand(&layers(yaml), "project").unwrap()
    }
}

fn user(yaml: &str) -> Document {
    parse(yaml, &Source::new(Layer::User, "user.yaml")).unwrap()
}

fn layers(yaml: &str) -> Layered {
    layer("default", &[user(yaml)]).unwrap()
}

#[test]
fn the_project_is_granted_from_a_project_and_not_from_home() {
    let host = Host::new(&["project/src/a", ".ssh/id"]);
    let from = |cwd| host.expand(&layer("default", &[]).unwrap(), cwd).unwrap();
    let project = from("project");
    assert!(project.notes().is_empty(), "{:?}", project.notes());
    for (operation, path, allowed) in [
        (Operation::Write, "src/a", true),
        (Operation::Create, "new", true),
        (Operation::Execute, "src/a", true),
        (Operation::Read, "../.ssh/id", false),
        (Operation::Read, "src/../../.ssh/id", false),
        (Operation::Create, "../new", false),
        (Operation::Write, "/dev/null", true),
        (Operation::Execute, "/usr/bin/env", true),
        (Operation::Write, "/usr/bin/env", false),
        (Operation::Read, "/etc/shadow", false),
        (Operation::Connect, "/run/docker.sock", false),
    ] {
        let verdict = project.why(operation, Path::new(path));
        assert_eq!(verdict.allowed, allowed, "{verdict}");
    }
    let home = from("");
    assert!(
        !home
            .why(Operation::Read, Path::new("project/src/a"))
            .allowed
    );
    assert_eq!(home.notes().len(), 1);
    let note = &home.notes()[0];
    for part in ["{CWD} is not granted", "home directory", "--cwd"] {
        assert!(note.contains(part), "{note}");
    }
}

#[test]
fn a_verdict_names_the_rule_its_origin_and_the_line_that_would_allow() {
    let host = Host::new(&["data/x", ".ssh/id"]);
    let policy = host.policy("filesystem:\n  ro:\n    - \"{HOME}/data\"\n");
    let text = policy
        .why(Operation::Write, Path::new("../data/x"))
        .to_string();
    for part in [
        "write ",
        "data/x is not allowed by the policy",
        "= {HOME}/data (user user.yaml, line 3)",
        r#"filesystem: { rw: ["{HOME}/data/x"] }"#,
    ] {
        assert!(text.contains(part), "{text}");
    }
    let key = policy.why(Operation::Read, Path::new("../.ssh/id"));
    assert_eq!(
        key.allow.as_deref(),
        Some(r#"filesystem: { ro: ["{HOME}/.ssh/id"] }"#)
    );
    let shown = policy.to_string();
    assert!(shown.contains("user user.yaml, line 3"), "{shown}");
    assert!(shown.contains("profile default, line "), "{shown}");
    let json: Policy = serde_json::from_value(policy.to_json()).unwrap();
    assert_eq!(json, policy);
}

#[test]
fn the_line_that_a_verdict_names_does_allow_it() {
    let host = Host::new(&["data/x", "a{b/x", "it's \"quoted\"/x"]);
    for (operation, path) in [
        (Operation::Read, "../data/x"),
        (Operation::Write, "../data/x"),
        (Operation::Create, "../data/new"),
        (Operation::Remove, "../data/x"),
        (Operation::Execute, "../data/x"),
        (Operation::Read, "../a{b/x"),
        (Operation::Read, "../it's \"quoted\"/x"),
    ] {
        let verdict = host.policy("").why(operation, Path::new(path));
        assert!(!verdict.allowed);
        let line = verdict.allow.unwrap();
        let verdict = host.policy(&line).why(operation, Path::new(path));
        assert!(verdict.allowed, "{line}: {verdict}");
    }
}

#[test]
fn what_a_tool_may_have_linked_is_not_followed() {
    let host = Host::new(&[".ssh/id", "other/id", "project/real/", "cache/real/"]);
    symlink(host.home.join("other"), host.home.join("project/data")).unwrap();
    symlink("real", host.home.join("project/inner")).unwrap();
    symlink(host.home.join(".ssh"), host.home.join("cache/uv")).unwrap();
    let policy = host.policy(
        "filesystem:\n  rwx: ['{CWD}/data', '{CWD}/inner', '{HOME}/cache', '{HOME}/cache/uv']\n\
         unix_sockets: ['{CWD}/data/id']\n",
    );
    assert!(!policy.why(Operation::Read, Path::new("../.ssh/id")).allowed);
    assert!(
        !policy
            .why(Operation::Connect, Path::new("../.ssh/id"))
            .allowed
    );
    assert!(policy.why(Operation::Write, Path::new("real/x")).allowed);
    let notes = policy.notes().join("\n");
    assert_eq!(
        notes.matches("a tool may have made it").count(),
        3,
        "{notes}"
    );
}

#[test]
fn what_is_dropped_is_gone_and_a_part_of_a_grant_cannot_be_dropped() {
    let host = Host::new(&["data/x", "project/secret/"]);
    let all = "filesystem: { rw: ['{HOME}/data'] }\nenv: [MY_NAME]\n";
    let drop = "drop: { filesystem: ['{HOME}/data'], env: ['MY_*', PATH] }\n";
    for order in [[all, drop], [drop, all]] {
        let layered = layer("default", &order.map(user)).unwrap();
        let policy = host.expand(&layered, "project").unwrap();
        assert!(!policy.why(Operation::Read, Path::new("../data/x")).allowed);
        assert!(!policy.passes("MY_NAME") && !policy.passes("PATH") && policy.passes("HOME"));
    }
    let part = layers("drop: { filesystem: ['{CWD}/secret'] }");
    let error = host.expand(&part, "project").unwrap_err().to_string();
    assert!(error.contains("user user.yaml, line 1"), "{error}");
    assert!(error.contains("cannot be taken away"), "{error}");
}

#[test]
fn rules_that_do_not_apply_are_told_where_a_person_wrote_them() {
    let host = Host::new(&[]);
    let policy = host.policy("filesystem: { ro: ['{HOME}/nowhere'] }");
    assert_eq!(policy.notes().len(), 1);
    assert!(policy.notes()[0].contains("{HOME}/nowhere (user user.yaml, line 1): does not exist"));
    let policy = host.policy("filesystem: { ro: ['{NO_SUCH_NAME}/x'] }\nunix_sockets: ['{NO}/s']");
    assert_eq!(policy.notes().len(), 2);
    assert!(policy.notes()[0].contains("NO_SUCH_NAME is not set"));
    // What was to be taken away would stay; and no host sets what is no name.
    for wrong in [
        "drop: { filesystem: ['{NO_SUCH_NAME}/x'] }",
        "drop: { unix_sockets: ['{NO_SUCH_NAME}/x'] }",
        "filesystem: { ro: ['{no-name}/x'] }",
    ] {
        let error = host.expand(&layers(wrong), "project").unwrap_err();
        assert!(error.to_string().contains("line 1"), "{wrong}: {error}");
    }
}

#[test]
fn the_environment_is_the_allowed_names_and_nothing_else() {
    let host = Host::new(&[]);
    let policy = host.policy("env: [MY_TOKEN]");
    let from = [
        "PATH",
        "LC_ALL",
        "MY_TOKEN",
        "GITHUB_TOKEN",
        "SSH_AUTH_SOCK",
        "LD_PRELOAD",
    ];
    let from = from.map(|n| (OsString::from(n), OsString::from("v")));
    let (passed, withheld) = policy.environment(from);
    let names: Vec<_> = passed.iter().map(|(n, _)| n.to_str().unwrap()).collect();
    assert_eq!((names, withheld), (vec!["PATH", "LC_ALL", "MY_TOKEN"], 3));
}

#[test]
fn errors_name_file_line_column_and_the_nearest_word() {
    for (yaml, line, column, message) in [
        ("filesytem:\n  ro: []\n", 1, 1, "did you mean `filesystem`?"),
        (
            "filesystem:\n  ro: []\n  rxw: []\n",
            3,
            3,
            "did you mean `rwx`?",
        ),
        (
            "env: [A]\nenv: [B]\n",
            2,
            1,
            "`env` stands here a second time",
        ),
        ("limits: { processes: many }", 1, 22, "whole number"),
        ("limits: { open_files: 0 }", 1, 23, "nothing run"),
        ("filesystem: { ro: /etc }", 1, 19, "a list is expected"),
        ("filesystem: { ro: ['~/x'] }", 1, 20, "{HOME}"),
        ("filesystem: { ro: ['x/y'] }", 1, 20, "{CWD}"),
        ("env: ['A*B']", 1, 7, "last character"),
        (
            "network: { none: true, unrestricted: true }",
            1,
            10,
            "say one of",
        ),
        ("network: { connect_tcp: [70000] }", 1, 26, "65535"),
        ("network: {}", 1, 10, "say one of"),
        ("general: { best_effort: yes }", 1, 25, "`true` or `false`"),
        ("env: &x [A]\ndrop: { env: *x }\n", 1, 9, "anchors"),
        ("filesystem: [", 1, 13, "keys are expected"),
        ("env: 'abc", 1, 6, "unclosed"),
        ("env: !foo [A]", 1, 11, "tag"),
        ("<<: { env: [A] }", 1, 1, "`<<`"),
        ("env: [~]", 1, 7, "a text is expected"),
        ("- a\n", 1, 1, "keys are expected"),
        ("env: [A]\n---\nenv: [B]\n", 2, 1, "one document"),
    ] {
        let error = parse(yaml, &Source::new(Layer::User, "f.yaml")).unwrap_err();
        let Error::Document {
            file,
            line: l,
            column: c,
            message: m,
        } = &error
        else {
            panic!("{yaml}: {error:?}");
        };
        assert_eq!(file, "f.yaml");
        assert!(!m.contains('\n'), "{m}");
        assert!(m.contains(message), "{yaml}: {error}");
        assert_eq!((*l, *c), (line, column), "{yaml}: {error}");
    }
}

#[test]
fn nothing_is_a_policy_that_says_nothing() {
    for yaml in ["", "# only a comment\n", "filesystem:\n"] {
        let document = parse(yaml, &Source::new(Layer::User, "f.yaml")).unwrap();
        assert!(document.is_empty(), "{yaml:?}");
    }
}

/// The two files of the first draft of this design.
#[test]
fn files_of_earlier_versions_are_still_read() {
    let text = include_str!("fixtures/first-default.yaml");
    let document = parse(text, &Source::new(Layer::User, "first-default.yaml")).unwrap();
    assert_eq!(document.filesystem.len(), 25);
    assert_eq!(document.env.len(), 6);
    let text = include_str!("fixtures/first-project.yaml");
    let document = parse(text, &Source::new(Layer::Project, ".ollie-sandbox.yaml")).unwrap();
    assert_eq!(document.filesystem.len(), 2);
    let old = "general: { log_level: debug }\nadvanced: { ldd: true, add_exec: false }\n\
               network: { enabled: false }\n";
    let document = parse(old, &Source::new(Layer::User, "old.yaml")).unwrap();
    assert_eq!(document.notes.len(), 3);
    assert!(document.notes[0].contains("old.yaml, line 1: `general.log_level` has no effect"));
    assert_eq!(
        document.network.unwrap().value,
        ollie_sandbox::Network::None
    );
}

#[test]
fn size_is_bounded() {
    let many = format!("filesystem: {{ ro: [{}] }}", "/a,".repeat(MAX_RULES + 1));
    assert!(many.len() < ollie_sandbox::MAX_POLICY_BYTES);
    let document = user(&many);
    assert!(matches!(
        layer("default", &[document]),
        Err(Error::TooLarge(_))
    ));
    let long = format!("env: [{}]", "A,".repeat(64 * 1024));
    assert!(parse(&long, &Source::new(Layer::User, "f.yaml")).is_err());
    assert!(Layered::from_json(&vec![b' '; 5 << 20]).is_err());
}

#[test]
fn the_record_that_travels_refuses_what_it_does_not_know() {
    let layered = layers("filesystem: { ro: ['/etc/hosts'] }");
    let json = layered.to_json().unwrap();
    assert_eq!(Layered::from_json(&json).unwrap(), layered);
    let text = String::from_utf8(json).unwrap();
    let more = text.replacen('{', "{\"more\":1,", 1);
    assert!(matches!(
        Layered::from_json(more.as_bytes()),
        Err(Error::Record(_))
    ));
}

fn project(yaml: &str) -> Document {
    parse(yaml, &Source::new(Layer::Project, ".ollie-sandbox.yaml")).unwrap()
}

#[test]
fn a_project_narrows_at_once_and_widens_only_when_trusted() {
    let host = Host::new(&["data/x", ".gitconfig"]);
    let base = layers("limits: { open_files: 100 }\nunix_sockets: []\n");
    let asked = project(
        "filesystem: { rw: ['{HOME}/data'] }\nnetwork: { connect_tcp: [443] }\n\
         unix_sockets: [/var/run/docker.sock]\nenv: [DOCKER_HOST, PATH]\n\
         limits: { open_files: 200, file_size_mb: 1 }\n\
         drop: { filesystem: ['{HOME}/.gitconfig'] }\n",
    );
    let data = Path::new("../data/x");
    let git = Path::new("../.gitconfig");
    let narrow = base.clone().narrowed(&asked).unwrap();
    let policy = host.expand(&narrow, "project").unwrap();
    assert!(!policy.why(Operation::Read, data).allowed);
    assert!(
        !policy.why(Operation::Read, git).allowed,
        "dropping holds without trust"
    );
    assert!(!policy.passes("DOCKER_HOST"));
    assert!(policy.network().is_restricted());
    let limit = |p: &Policy| p.limits().open_files.as_ref().unwrap().value;
    assert_eq!(
        (
            limit(&policy),
            policy.limits().file_size_mb.as_ref().unwrap().value
        ),
        (100, 1)
    );

    let requests: Vec<_> = base
        .requests(&asked)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(requests.len(), 4, "{requests:#?}");
    assert!(requests[0].starts_with("rw {HOME}/data (project .ollie-sandbox.yaml, line 1)"));
    assert!(
        requests[1].contains("docker.sock") && requests[1].contains("equals root on that host")
    );
    assert!(requests[2].starts_with("the variable DOCKER_HOST"));
    assert!(requests[3].starts_with("limits.open_files 200"));

    let policy = host
        .expand(&base.trusting(&asked).unwrap(), "project")
        .unwrap();
    assert!(policy.why(Operation::Write, data).allowed);
    assert!(policy.passes("DOCKER_HOST") && limit(&policy) == 200);
}

#[test]
fn the_first_drafts_project_file_is_asked_about_and_works_when_trusted() {
    let host = Host::new(&[".docker/config.json"]);
    let asked = project(include_str!("fixtures/first-project.yaml"));
    let base = layer("default", &[]).unwrap();
    assert_eq!(base.requests(&asked).len(), 3);
    let config = Path::new("../.docker/config.json");
    let before = host
        .expand(&base.clone().narrowed(&asked).unwrap(), "project")
        .unwrap();
    assert!(!before.why(Operation::Read, config).allowed);
    let after = host
        .expand(&base.trusting(&asked).unwrap(), "project")
        .unwrap();
    assert!(after.why(Operation::Write, config).allowed);
}

#[test]
fn a_narrow_network_is_not_widened_by_a_project() {
    let none = layers("network: { none: true }");
    let asked = project("network: { unrestricted: true }");
    assert_eq!(
        said_network(&none.clone().narrowed(&asked).unwrap()),
        "\"none\""
    );
    assert_eq!(none.requests(&asked).len(), 1);
    let ports = layers("network: { connect_tcp: [80, 443] }");
    let asked = project("network: { connect_tcp: [443, 22], bind_tcp: [80] }");
    let met = said_network(&ports.narrowed(&asked).unwrap());
    assert_eq!(met, r#"{"tcp":{"bind":[],"connect":[443]}}"#);
}

fn said_network(layered: &Layered) -> String {
    let json: serde_json::Value = serde_json::from_slice(&layered.to_json().unwrap()).unwrap();
    json["network"]["value"].to_string()
}

#[test]
fn no_trust_makes_a_project_own_the_home_directory() {
    let host = Host::new(&[".ssh/id", "data/"]);
    symlink(&host.home, host.home.join("data/all")).unwrap();
    for yaml in [
        "general: { best_effort: true }",
        "filesystem: { ro: [/] }",
        "filesystem: { rw: ['{HOME}/'] }",
        "filesystem: { ro: ['{HOME}/.'] }",
        "filesystem: { rw: ['{HOME}/.ssh'] }",
        "filesystem: { rwx: ['{HOME}/.ssh/../.ssh'] }",
        "filesystem: { ro: ['{HOME}/data/all'] }",
        "filesystem: { rw: [/usr/bin] }",
        "filesystem: { rw: [/dev] }",
        "env: [LD_PRELOAD]",
        "env: ['LD*']",
        "env: ['L*']",
        "env: [BASH_ENV]",
    ] {
        let trusted = layer("default", &[]).unwrap().trusting(&project(yaml));
        let error = trusted
            .and_then(|l| host.expand(&l, "project"))
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("project .ollie-sandbox.yaml, line 1: "),
            "{yaml}: {text}"
        );
        assert!(text.contains("a project file may not"), "{yaml}: {text}");
    }
}

/// Documents of few words, so that they often say the same.
fn documents() -> impl Strategy<Value = Document> {
    let path = select(vec!["/usr", "/etc/hosts", "{HOME}", "{CWD}"]);
    let access = select(vec!["ro", "rox", "rw", "rwx"]);
    let rules = vec((access, path.clone()), 0..4);
    let names = vec(select(vec!["A", "B", "C_*"]), 0..3);
    let network = option::of(select(vec![
        "unrestricted: true",
        "none: true",
        "bind_tcp: [80]",
    ]));
    (rules, names.clone(), vec(path, 0..2), names, network).prop_map(
        |(rules, env, dropped, env_dropped, network)| {
            let list = |words: &[&str]| format!("['{}']", words.join("', '"));
            let mut yaml = String::from("filesystem:\n");
            for access in ["ro", "rox", "rw", "rwx"] {
                let paths: Vec<_> = rules
                    .iter()
                    .filter(|r| r.0 == access)
                    .map(|r| r.1)
                    .collect();
                if !paths.is_empty() {
                    yaml += &format!("  {access}: {}\n", list(&paths));
                }
            }
            if !env.is_empty() {
                yaml += &format!("env: {}\n", list(&env));
            }
            yaml += "drop:\n";
            if !dropped.is_empty() {
                yaml += &format!("  filesystem: {}\n", list(&dropped));
            }
            if !env_dropped.is_empty() {
                yaml += &format!("  env: {}\n", list(&env_dropped));
            }
            if let Some(network) = network {
                yaml += &format!("network: {{ {network} }}\n");
            }
            user(&yaml)
        },
    )
}

/// What a policy says, without who says it and in which order.
fn said(layered: &Layered) -> BTreeSet<String> {
    let json: serde_json::Value = serde_json::from_slice(&layered.to_json().unwrap()).unwrap();
    let mut said = BTreeSet::new();
    for list in ["filesystem", "env", "unix_sockets"] {
        for rule in json[list].as_array().unwrap() {
            let what = rule.get("path").unwrap_or(&rule["value"]);
            said.insert(format!(
                "{list} {} {what}",
                rule.get("access").unwrap_or(&json["none"])
            ));
        }
    }
    for list in ["filesystem", "env"] {
        for rule in json["drop"]
            .get(list)
            .and_then(|d| d.as_array())
            .into_iter()
            .flatten()
        {
            said.insert(format!("drop {list} {}", rule["value"]));
        }
    }
    said
}

fn merged(documents: &[&Document]) -> Layered {
    let documents: Vec<Document> = documents.iter().map(|d| (*d).clone()).collect();
    layer("strict", &documents).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn merging_twice_is_merging_once(a in documents(), b in documents()) {
        prop_assert_eq!(merged(&[&a, &b, &b]), merged(&[&a, &b]));
        prop_assert_eq!(said(&merged(&[&a, &b, &a])), said(&merged(&[&a, &b])));
    }

    #[test]
    fn the_order_of_layers_matters_for_scalars_only(a in documents(), b in documents()) {
        prop_assert_eq!(said(&merged(&[&a, &b])), said(&merged(&[&b, &a])));
        let one_by_one = merged(&[&a]).with(&b).unwrap();
        prop_assert_eq!(&one_by_one, &merged(&[&a, &b]));
        let network = |l: &Layered| serde_json::from_slice::<serde_json::Value>(&l.to_json().unwrap()).unwrap()["network"]["value"].clone();
        let last = b.network.as_ref().or(a.network.as_ref()).map(|n| serde_json::to_value(&n.value).unwrap());
        prop_assert_eq!(network(&one_by_one), last.unwrap_or("none".into()));
    }

    #[test]
    fn a_layer_never_takes_away_but_by_drop(a in documents(), b in documents()) {
        let (before, after) = (said(&merged(&[&a])), said(&merged(&[&a, &b])));
        prop_assert!(before.is_subset(&after));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[ a-z{}:#&*!|>'\"\\[\\],\n\t-]{0,120}") {
        let _ = parse(&text, &Source::new(Layer::Project, "f.yaml"));
    }

    #[test]
    fn no_path_makes_a_verdict_panic(path in "[a-z./~{}]{0,40}") {
        let host = Host::new(&[]);
        let policy = host.policy("");
        for operation in Operation::ALL {
            let _ = policy.why(operation, Path::new(&path)).to_string();
        }
    }
}

#[test]
fn a_projects_file_that_nobody_read_is_told_in_every_result() {
    let host = Host::new(&["project/.ollie-sandbox.yaml"]);
    let layered = layer("default", &[]).unwrap();
    let notes = host.expand(&layered, "project").unwrap().notes().to_vec();
    assert!(
        notes.len() == 1 && notes[0].contains("was not read"),
        "{notes:?}"
    );
    let read = layered.project_read();
    let back = Layered::from_json(&read.to_json().unwrap()).unwrap();
    assert!(host.expand(&back, "project").unwrap().notes().is_empty());
}

#[test]
fn what_a_layer_added_is_told_as_it_holds() {
    let host = Host::new(&["data/x", "run/a.sock"]);
    symlink("data", host.home.join("link")).unwrap();
    let asked = project(
        "filesystem: { ro: ['{HOME}/link', '{CWD}'] }\nunix_sockets: ['{HOME}/run/a.sock']\n",
    );
    let trusted = layer("default", &[]).unwrap().trusting(&asked).unwrap();
    let policy = host.expand(&trusted, "project").unwrap();
    let at = |path: &str| host.home.join(path);
    assert_eq!(
        policy.added_by(Layer::Project),
        [
            ("connect".to_owned(), at("run/a.sock")),
            ("ro".to_owned(), at("data")),
            ("ro".to_owned(), at("project")),
        ]
    );
}
