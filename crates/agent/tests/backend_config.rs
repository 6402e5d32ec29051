//! What a configuration file says about back ends.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ollie_agent::backends::{BackendConfig, BackendKind, KeySource};

fn parse(text: &str) -> Result<BackendConfig, String> {
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

fn open(text: &str) -> Result<String, String> {
    let opened = parse(text).unwrap().open("it", None);
    opened
        .map(|it| format!("{it:?}"))
        .map_err(|error| error.to_string())
}

#[test]
fn a_back_end_has_what_was_written() {
    let config = parse(
        "kind: openai\nurl: https://models.example.org/v1\nkey_command: [pass, show, models]\n\
         model: large\ncontext: 128000\nthinking: high\nconnect_timeout: 1.5s\n\
         idle_timeout: 90\n",
    )
    .unwrap();
    assert_eq!(config.kind, BackendKind::OpenAi);
    assert_eq!(config.connect_timeout, Some(Duration::from_millis(1500)));
    assert_eq!(config.idle_timeout, Some(Duration::from_secs(90)));
    assert_eq!(config.context, Some(128_000));
    let command = ["pass", "show", "models"].map(str::to_owned);
    assert_eq!(config.key_source().unwrap(), KeySource::Command(&command));
    let shown = format!("{:?}", config.open("work", None).unwrap());
    for word in ["work", "https://models.example.org/v1", "high", "90s"] {
        assert!(shown.contains(word), "{shown}");
    }
}

#[test]
fn what_is_misspelt_is_an_error() {
    for (text, says) in [
        ("{}", "kind"),
        ("kind: telepathy", "telepathy"),
        ("{kind: openai, mdoel: x}", "mdoel"),
        ("{kind: openai, key: sk-1}", "key"),
        ("{kind: openai, idle_timeout: soon}", "soon"),
        ("{kind: openai, idle_timeout: 0}", "millisecond"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn what_would_have_no_effect_is_an_error() {
    for (text, says) in [
        ("{kind: openai, url: 'ftp://x'}", "http"),
        ("{kind: openai, url: 'x'}", "url"),
        ("{kind: openai, url: 'https://me:secret@x'}", "user name"),
        ("{kind: openai, url: 'https://x/?key=1'}", "?"),
        ("{kind: openai, proxy: 'socks5://x'}", "proxy"),
        ("{kind: openai, ca_file: /nonexistent}", "/nonexistent"),
        ("{kind: openai, key_env: A, key_file: b}", "one place"),
        ("{kind: openai, key_command: []}", "program"),
        ("{kind: openai, thinking: 3}", "word"),
        ("{kind: openai, file: x}", "replay"),
        ("{kind: anthropic, thinking: 1000}", "1024"),
        ("{kind: anthropic, thinking: true}", "adaptive"),
        ("{kind: ollama, thinking: 3}", "true"),
        ("{kind: ollama, thinking: [3]}", "word"),
        ("{kind: replay}", "recording"),
        ("{kind: replay, file: x, url: 'http://x'}", "url"),
        ("{kind: replay, file: /nonexistent}", "/nonexistent"),
    ] {
        let error = open(text).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
    for text in [
        "{kind: anthropic, thinking: 1024}",
        "{kind: anthropic, thinking: adaptive}",
        "{kind: ollama, thinking: false, context: 8192}",
        "{kind: ollama, thinking: low}",
    ] {
        open(text).unwrap();
    }
}

#[test]
fn four_back_ends_need_no_configuration() {
    let all: BTreeMap<_, _> = BackendConfig::built_in().into_iter().collect();
    let keys = all
        .iter()
        .map(|(name, it)| (*name, it.key_source().unwrap()));
    let expected = [
        ("anthropic", KeySource::Env("ANTHROPIC_API_KEY")),
        ("ollama", KeySource::None),
        ("openai", KeySource::Env("OPENAI_API_KEY")),
        ("openrouter", KeySource::Env("OPENROUTER_API_KEY")),
    ];
    assert!(keys.eq(expected));
    for (name, config) in all {
        assert_eq!(config.open(name, None).unwrap().name(), name);
    }
}

#[test]
fn a_recording_is_named_by_an_argument() {
    let config = BackendConfig::replay("replay:a/b.jsonl").unwrap();
    assert_eq!(config.kind, BackendKind::Replay);
    assert_eq!(config.file.as_deref(), Some(Path::new("a/b.jsonl")));
    assert!(BackendConfig::replay("openai").is_none());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("it.jsonl");
    std::fs::write(&file, "{\"text\":\"a\"}\n").unwrap();
    let config = BackendConfig::replay(&format!("replay:{}", file.display())).unwrap();
    let error = config.open("replay", None).unwrap_err().to_string();
    assert!(error.contains("it.jsonl, line 1"), "{error}");
}
