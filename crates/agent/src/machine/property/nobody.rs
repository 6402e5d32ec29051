//! An agent whose model is nobody: the moves speak for it.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::{
    Backend, BackendError, Config, DeltaStream, Hooks, Limits, Model, Parallel, Request, Sampling,
    ToolDef, Visible,
};

#[derive(Debug)]
pub(super) struct Nobody;

impl Backend for Nobody {
    // The provider that is strictest about reasoning which comes back to it.
    fn name(&self) -> &'static str {
        "anthropic"
    }
    fn stream<'a>(
        &'a self,
        _request: Request<'a>,
    ) -> BoxFuture<'a, Result<DeltaStream, BackendError>> {
        async { Err(BackendError::Exhausted) }.boxed()
    }
    fn models(&self) -> BoxFuture<'_, Result<Vec<Model>, BackendError>> {
        async { Ok(Vec::new()) }.boxed()
    }
}

pub(super) fn config(window: Option<u64>) -> Config {
    Config {
        session: "s".into(),
        agent: "a".into(),
        model: "m".into(),
        system: "You help.".into(),
        tools: Visible::Only(vec!["look".into(), "touch".into()]),
        sampling: Sampling::default(),
        context_window: window,
        hooks: Hooks {
            pre_turn: vec!["before".into()],
            post_turn: vec!["after".into()],
        },
        limits: Limits {
            steps: 12,
            failing_rounds: 4,
            parallel: 2,
            retries: 2,
            reply_bytes: 2000,
            streamed_bytes: 40,
            queue: 5,
            calls: 4,
            ..Limits::default()
        },
    }
}

pub(super) fn tools() -> Vec<ToolDef> {
    let tool = |name: &str, parallel| ToolDef {
        name: name.into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
        parallel,
    };
    vec![
        tool("look", Parallel::Read),
        tool("touch", Parallel::Write),
        tool("hidden", Parallel::Read),
    ]
}
