//! Back ends against a server of our own.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod model_server;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt as _;
use ollie_agent::backends::{Anthropic, ApiKey, Endpoint, Ollama, OpenAi};
use ollie_agent::{
    Backend, BackendError, Delta, Entry, History, Model, Request, Sampling, StopReason,
};

use self::model_server::{Answer, Noticed, Server};

const KEY: &str = "sk-thisisverysecret";
const SSE: &str = "text/event-stream; charset=utf-8";
const NDJSON: &str = "application/x-ndjson";

#[derive(Debug, Clone, Copy)]
enum Api {
    OpenAi,
    Anthropic,
    Ollama,
}

use Api::{Anthropic as AnthropicApi, Ollama as OllamaApi, OpenAi as OpenAiApi};

const APIS: [Api; 3] = [OpenAiApi, AnthropicApi, OllamaApi];

impl Api {
    fn open(self, endpoint: &Endpoint) -> Arc<dyn Backend> {
        match self {
            Self::OpenAi => Arc::new(OpenAi::new("it", endpoint).unwrap()),
            Self::Anthropic => Arc::new(Anthropic::new("it", endpoint).unwrap()),
            Self::Ollama => Arc::new(Ollama::new("it", endpoint).unwrap()),
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Anthropic => SSE,
            Self::Ollama => NDJSON,
        }
    }

    fn text(self) -> &'static [u8] {
        match self {
            Self::OpenAi => include_bytes!("fixtures/openai/text.sse"),
            Self::Anthropic => include_bytes!("fixtures/anthropic/text.sse"),
            Self::Ollama => include_bytes!("fixtures/ollama/text.ndjson"),
        }
    }

    fn calls(self) -> &'static [u8] {
        match self {
            Self::OpenAi => include_bytes!("fixtures/openai/calls.sse"),
            Self::Anthropic => include_bytes!("fixtures/anthropic/thinking_and_calls.sse"),
            Self::Ollama => include_bytes!("fixtures/ollama/thinking_and_calls.ndjson"),
        }
    }

    /// A beginning of a reply that has one text, "Half".
    fn half(self) -> &'static [u8] {
        match self {
            Self::OpenAi => b"data: {\"choices\":[{\"delta\":{\"content\":\"Half\"}}]}\n\n",
            Self::Anthropic => {
                b"data: {\"type\":\"content_block_start\",\"index\":0,\
                  \"content_block\":{\"type\":\"text\",\"text\":\"Half\"}}\n\n"
            }
            Self::Ollama => b"{\"message\":{\"content\":\"Half\"},\"done\":false}\n",
        }
    }
}

fn endpoint(server: &Server) -> Endpoint {
    Endpoint::new(&server.url, Some(ApiKey::new(KEY).unwrap()))
}

async fn ask(backend: &dyn Backend) -> Result<ollie_agent::DeltaStream, BackendError> {
    let entry = Entry::User { text: "Hi".into() };
    let history = History::from_entries([entry]).unwrap();
    backend
        .stream(Request {
            model: "m",
            system: "",
            history: &history,
            tools: &[],
            sampling: &Sampling::default(),
        })
        .await
}

/// All of a reply, and the error that ended it.
async fn reply(backend: &dyn Backend) -> (Vec<Delta>, Option<BackendError>) {
    let mut deltas = Vec::new();
    let mut stream = match ask(backend).await {
        Ok(stream) => stream,
        Err(error) => return (deltas, Some(error)),
    };
    while let Some(next) = stream.next().await {
        match next {
            Ok(delta) => deltas.push(delta),
            Err(error) => {
                assert!(stream.next().await.is_none(), "an error is the last one");
                return (deltas, Some(error));
            }
        }
    }
    (deltas, None)
}

fn text(deltas: &[Delta]) -> String {
    let texts = deltas.iter().filter_map(|delta| match delta {
        Delta::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[tokio::test]
async fn a_turn_of_words_and_a_turn_of_calls() {
    for api in APIS {
        let streams = [api.text(), api.calls()];
        let answers = streams.map(|body| Answer::stream(api.kind(), body));
        let mut server = Server::start(answers).await;
        let backend = api.open(&endpoint(&server));

        let (deltas, error) = reply(&*backend).await;
        assert!(error.is_none(), "{api:?}: {error:?}");
        assert!(text(&deltas).starts_with("Crab \u{1f980} and \u{1f980}"));
        assert_eq!(deltas.last(), Some(&Delta::Stop(StopReason::End)));
        let seen = server.request().await;
        let (line, header) = match api {
            OpenAiApi => (
                "POST /v1/chat/completions HTTP/1.1",
                format!("authorization: Bearer {KEY}"),
            ),
            AnthropicApi => ("POST /v1/messages HTTP/1.1", format!("x-api-key: {KEY}")),
            OllamaApi => (
                "POST /v1/api/chat HTTP/1.1",
                format!("authorization: Bearer {KEY}"),
            ),
        };
        assert!(seen.has_header(line), "{}", seen.head);
        assert!(seen.has_header(&header), "{}", seen.head);
        assert!(seen.has_header("content-type: application/json"));
        assert_eq!(seen.head.matches(KEY).count(), 1);
        assert_eq!(seen.body["model"], "m");
        assert_eq!(seen.body["stream"], true);

        let (deltas, error) = reply(&*backend).await;
        assert!(error.is_none(), "{api:?}: {error:?}");
        let starts = deltas
            .iter()
            .filter(|it| matches!(it, Delta::CallStart { .. }));
        assert!(starts.count() >= 2, "{deltas:?}");
        assert_eq!(deltas.last(), Some(&Delta::Stop(StopReason::ToolCalls)));
    }
}

#[tokio::test]
async fn a_status_says_whether_to_try_again_and_when() {
    let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
    let date = format!("retry-after: {soon}\r\n");
    for (status, headers, body, again, waits) in [
        (400, "", r#"{"error":{"message":"bad"}}"#, false, None),
        (401, "", r#"{"error":{"message":"bad"}}"#, false, None),
        (403, "", "no", false, None),
        (404, "", r#"{"error":"no such model"}"#, false, None),
        (408, "", "", true, None),
        (413, "", "<html>", false, None),
        (
            429,
            "retry-after: 7\r\n",
            r#"{"error":{}}"#,
            true,
            Some(7..8),
        ),
        (429, date.as_str(), "", true, Some(90..101)),
        (500, "", r#"{"error":{"message":"oops"}}"#, true, None),
        (502, "", "<html><body>Bad Gateway", true, None),
        (503, "retry-after: 2\r\n", "busy", true, Some(2..3)),
        (
            529,
            "",
            r#"{"error":{"type":"overloaded_error"}}"#,
            true,
            None,
        ),
    ] {
        for api in APIS {
            let server = Server::start([Answer::status(status, headers, body)]).await;
            let (deltas, error) = reply(&*api.open(&endpoint(&server))).await;
            let error = error.expect("an error");
            assert_eq!(deltas, []);
            assert_eq!(error.is_retryable(), again, "{status}: {error}");
            let wait = error.retry_after().map(|it| it.as_secs());
            match &waits {
                None => assert_eq!(wait, None, "{status}"),
                Some(range) => assert!(range.contains(&wait.unwrap()), "{wait:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_long_context_is_told_apart_from_other_refusals() {
    let body = r#"{"error":{"message":"prompt is too long: 2 tokens > 1 maximum"}}"#;
    let server = Server::start([Answer::status(400, "", body)]).await;
    let (_, error) = reply(&*AnthropicApi.open(&endpoint(&server))).await;
    assert!(
        matches!(error, Some(BackendError::ContextTooLong { .. })),
        "{error:?}"
    );
}

#[tokio::test]
async fn what_is_cut_is_dropped_and_what_came_before_is_there() {
    for api in APIS {
        let half = Answer::stream(api.kind(), api.half());
        // By an end of the body, by an end of the connection.
        for answer in [half.clone(), half.and_cut()] {
            let server = Server::start([answer]).await;
            let (deltas, error) = reply(&*api.open(&endpoint(&server))).await;
            assert_eq!(text(&deltas), "Half", "{api:?}");
            assert!(
                matches!(error, Some(BackendError::Dropped { .. })),
                "{error:?}"
            );
        }
    }
}

#[tokio::test]
async fn silence_ends_a_request_before_and_within_a_reply() {
    for api in APIS {
        let half = Answer::stream(api.kind(), api.half());
        for (answer, said) in [(Answer::silence(), ""), (half.and_hang(), "Half")] {
            let mut server = Server::start([answer]).await;
            let mut endpoint = endpoint(&server);
            endpoint.idle_timeout = Duration::from_millis(300);
            let (deltas, error) = reply(&*api.open(&endpoint)).await;
            assert_eq!(text(&deltas), said);
            let Some(BackendError::Dropped { message }) = error else {
                panic!("{error:?}");
            };
            assert!(message.contains("300ms"), "{message}");
            server.request().await;
            assert!(matches!(server.next().await, Noticed::Gone));
        }
    }
}

#[tokio::test]
async fn signs_of_life_are_no_silence() {
    let mut body = b": keep-alive\n\n".repeat(30);
    body.extend_from_slice(OpenAiApi.text());
    // 61 bytes a piece: the comments alone take longer than the time limit.
    let answer = Answer::stream(SSE, &body).paced(Duration::from_millis(60));
    let server = Server::start([answer]).await;
    let mut endpoint = endpoint(&server);
    endpoint.idle_timeout = Duration::from_millis(400);
    let (deltas, error) = reply(&*OpenAiApi.open(&endpoint)).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(deltas.last(), Some(&Delta::Stop(StopReason::End)));
}

#[tokio::test]
async fn a_server_that_stays_after_the_last_word_is_left() {
    let last =
        b"data: {\"choices\":[{\"delta\":{\"content\":\"Whole\"},\"finish_reason\":\"stop\"}]}\n\n";
    // In one piece, so that nothing is on its way any more.
    let mut server = Server::start([Answer::stream(SSE, last).and_hang()]).await;
    let backend = OpenAiApi.open(&endpoint(&server));
    let mut stream = ask(&*backend).await.unwrap();
    let mut deltas = vec![stream.next().await.unwrap().unwrap()];
    while text(&deltas) != "Whole" {
        deltas.push(stream.next().await.unwrap().unwrap());
    }
    tokio::time::pause();
    let next = stream.next().await.unwrap().unwrap();
    assert_eq!(next, Delta::Stop(StopReason::End));
    tokio::time::resume();
    assert!(stream.next().await.is_none());
    server.request().await;
    assert!(matches!(server.next().await, Noticed::Gone));
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    for api in APIS {
        let half = Answer::stream(api.kind(), api.half()).and_hang();
        let mut server = Server::start([half]).await;
        let backend = api.open(&endpoint(&server));
        let mut stream = ask(&*backend).await.unwrap();
        assert_eq!(
            stream.next().await.unwrap().unwrap(),
            Delta::Text("Half".into())
        );
        server.request().await;
        drop(stream);
        // The back end is still there; the connection is not.
        assert!(matches!(server.next().await, Noticed::Gone), "{api:?}");
        drop(backend);
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_since_the_key_would_go_along() {
    let mut elsewhere = Server::start([Answer::json("{}")]).await;
    let to = format!("location: {}\r\n", elsewhere.url);
    for status in [301, 302, 307, 308] {
        let server = Server::start([Answer::status(status, &to, "")]).await;
        let (_, error) = reply(&*AnthropicApi.open(&endpoint(&server))).await;
        let Some(BackendError::Refused { message, .. }) = error else {
            panic!("{error:?}");
        };
        assert!(message.contains(&elsewhere.url), "{message}");
    }
    let asked = tokio::time::timeout(Duration::from_millis(50), elsewhere.next());
    assert!(asked.await.is_err());
}

#[tokio::test]
async fn a_page_or_a_document_instead_of_a_stream_is_no_reply() {
    let html = Answer::status(200, "content-type: text/html\r\n", "<html>Welcome</html>");
    let server = Server::start([html]).await;
    let (_, error) = reply(&*OpenAiApi.open(&endpoint(&server))).await;
    assert!(
        matches!(error, Some(BackendError::Malformed { .. })),
        "{error:?}"
    );
    // An error that comes with a status of success.
    let told = Answer::json(r#"{"error":{"type":"rate_limit_error","message":"slow"}}"#);
    let server = Server::start([told]).await;
    let (_, error) = reply(&*OpenAiApi.open(&endpoint(&server))).await;
    assert!(
        matches!(error, Some(BackendError::RateLimited { .. })),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_proxy_is_used_if_it_is_named() {
    let mut proxy = Server::start([Answer::stream(SSE, OpenAiApi.text())]).await;
    let mut endpoint = Endpoint::new("http://models.invalid/v1", None);
    endpoint.proxy = Some(proxy.url.trim_end_matches("/v1").to_owned());
    let (deltas, error) = reply(&*OpenAiApi.open(&endpoint)).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(deltas.last(), Some(&Delta::Stop(StopReason::End)));
    let seen = proxy.request().await;
    let line = "POST http://models.invalid/v1/chat/completions HTTP/1.1";
    assert!(seen.has_header(line), "{}", seen.head);
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let (_, error) = reply(&*OllamaApi.open(&Endpoint::new(&url, None))).await;
    let Some(BackendError::Unreachable { message }) = error else {
        panic!("{error:?}");
    };
    assert!(
        message.contains(&url) && message.contains("refused"),
        "{message}"
    );
}

#[tokio::test]
async fn the_key_is_in_no_text() {
    // Providers quote what they refuse.
    let quoting = format!(r#"{{"error":{{"message":"Incorrect API key: {KEY}"}}}}"#);
    let in_stream = format!("data: {{\"error\":{{\"message\":\"key {KEY}\"}}}}\n\n");
    let no_json = format!("data: {KEY}\n\n");
    let redirect = format!("location: http://x/?key={KEY}\r\n");
    let mut texts = String::new();
    for api in APIS {
        let server = Server::start([
            Answer::status(401, "", &quoting),
            Answer::status(500, "", &quoting),
            Answer::status(429, "", KEY),
            Answer::status(307, &redirect, ""),
            Answer::json(&quoting),
            Answer::stream(SSE, in_stream.as_bytes()),
            Answer::stream(SSE, no_json.as_bytes()),
        ])
        .await;
        let endpoint = endpoint(&server);
        let backend = api.open(&endpoint);
        for _ in 0..7 {
            let (_, error) = reply(&*backend).await;
            let error = error.expect("an error");
            texts += &format!("{error} {error:?} {error:#?}\n");
        }
        texts += &format!("{endpoint:?} {backend:?} {backend:#?}\n");
    }
    assert!(!texts.contains(KEY), "{texts}");
    assert!(texts.contains("[key]"), "{texts}");
}

#[tokio::test]
async fn the_models_on_offer() {
    let of = |id: &str, context| Model {
        id: id.to_owned(),
        context,
    };
    let openai = r#"{"object":"list","data":[{"id":"gpt-x","object":"model"},
        {"id":"a/b","context_length":200000},{"id":"vllm","max_model_len":4096},
        {"id":"llama","meta":{"n_ctx_train":8192}}]}"#;
    let first = r#"{"data":[{"type":"model","id":"claude-a","max_input_tokens":200000}],
        "has_more":true,"last_id":"claude-a"}"#;
    let second = r#"{"data":[{"type":"model","id":"claude-b"}],"has_more":false,"last_id":"x"}"#;
    let ollama = r#"{"models":[{"name":"qwen3:8b","model":"qwen3:8b","size":1}]}"#;
    for (api, answers, paths, expected) in [
        (
            OpenAiApi,
            vec![openai],
            vec!["GET /v1/models HTTP/1.1"],
            vec![
                of("gpt-x", None),
                of("a/b", Some(200_000)),
                of("vllm", Some(4096)),
                of("llama", Some(8192)),
            ],
        ),
        (
            AnthropicApi,
            vec![first, second],
            vec![
                "GET /v1/models?limit=1000 HTTP/1.1",
                "GET /v1/models?limit=1000&after_id=claude-a HTTP/1.1",
            ],
            vec![of("claude-a", Some(200_000)), of("claude-b", None)],
        ),
        (
            OllamaApi,
            vec![ollama],
            vec!["GET /v1/api/tags HTTP/1.1"],
            vec![of("qwen3:8b", None)],
        ),
    ] {
        let mut server = Server::start(answers.into_iter().map(Answer::json)).await;
        let models = api.open(&endpoint(&server)).models().await.unwrap();
        assert_eq!(models, expected);
        for path in paths {
            let seen = server.request().await;
            assert!(seen.has_header(path), "{}", seen.head);
        }
    }
    let server = Server::start([Answer::json("[]")]).await;
    let error = OpenAiApi
        .open(&endpoint(&server))
        .models()
        .await
        .unwrap_err();
    assert!(matches!(error, BackendError::Malformed { .. }), "{error:?}");
}
