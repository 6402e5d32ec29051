//! What a provider's refusal means: a status and a body, or an error object in
//! the middle of a stream.

use std::time::Duration;

use serde_json::Value;

use crate::BackendError;

/// Characters of a provider's words that are passed on.
const MESSAGE_MAX: usize = 1000;

/// Words by which providers say that a request is longer than the model's
/// context, in lower case. They have codes for it only here and there, and the
/// same code for other things as well.
const TOO_LONG: [&str; 12] = [
    // OpenAI (and who copies it): the code, and two messages.
    "context_length_exceeded",
    "maximum context length",
    "input tokens exceed",
    // Anthropic: of the prompt, of prompt and reply together, of the bytes.
    "prompt is too long",
    "exceed context limit",
    "request_too_large",
    // llama.cpp: the type, and the message before it had one.
    "exceed_context_size_error",
    "exceeds the available context size",
    // Ollama: with `truncate: false`, and of a cloud model.
    "exceeds the context length",
    "longer than the context length",
    "exceeds maximum context length",
    // Gateways in front of any of them.
    "context window exceeded",
];

/// What an answer other than 200 means.
pub(crate) fn of_status(
    status: u16,
    retry_after: Option<Duration>,
    body: &str,
    at: &str,
) -> BackendError {
    let told = Told::of_body(body);
    let message = told.message(status, at);
    // 500 is what older servers answer.
    if (400..=500).contains(&status) && told.is_too_long() {
        return BackendError::ContextTooLong { message };
    }
    match status {
        413 => BackendError::ContextTooLong { message },
        401 | 403 => BackendError::Authentication { message },
        // The money is used up: waiting does not help.
        429 if told.has("insufficient_quota") => BackendError::Refused { status, message },
        429 => BackendError::RateLimited {
            retry_after,
            message,
        },
        501 => BackendError::Refused { status, message },
        408 | 425 | 500.. => BackendError::Server {
            status,
            retry_after,
            message,
        },
        _ => BackendError::Refused { status, message },
    }
}

/// What an error object in a stream means. Its number, where it has one, is
/// the status that the answer would have had; else its type says it. An error
/// that says neither happened while the model was at work, and may not happen
/// again.
pub(crate) fn in_stream(error: &Value) -> BackendError {
    let told = Told::of_error(error);
    let code = error.get("code").and_then(|code| match code {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    });
    let status = match code.and_then(|code| u16::try_from(code).ok()) {
        Some(status @ 400..=599) => status,
        _ if told.has("authentication_error") => 401,
        _ if told.has("permission_error") => 403,
        _ if told.has("not_found_error") => 404,
        _ if told.has("request_too_large") => 413,
        _ if told.has("rate_limit") || told.has("insufficient_quota") => 429,
        _ if told.has("invalid_request_error") => 400,
        _ if told.has("overloaded_error") => 529,
        _ => 500,
    };
    of_status(status, None, &error.to_string(), "the stream")
}

/// The stream ended before the reply did.
pub(crate) fn dropped(message: impl Into<String>) -> BackendError {
    BackendError::Dropped {
        message: message.into(),
    }
}

/// What came is not the format.
pub(crate) fn malformed(message: impl Into<String>) -> BackendError {
    BackendError::Malformed {
        message: message.into(),
    }
}

/// JSON that cannot be read, with its beginning.
pub(crate) fn no_json(error: &serde_json::Error, text: &str) -> BackendError {
    malformed(format!("{error} in {:?}", cut(text, 200)))
}

/// What a body says, in whichever of the known forms.
struct Told {
    message: Option<String>,
    /// All of it, in lower case, to look for words in.
    words: String,
}

impl Told {
    fn of_body(body: &str) -> Self {
        let body = body.trim();
        match serde_json::from_str::<Value>(body) {
            Ok(value) => Self::of_error(value.get("error").unwrap_or(&value)),
            // An error page of something between; its words are of no use.
            Err(_) if body.is_empty() || body.starts_with('<') => Self {
                message: None,
                words: String::new(),
            },
            Err(_) => Self {
                message: Some(body.to_owned()),
                words: body.to_lowercase(),
            },
        }
    }

    /// `{"message": ..}`, `"text"`, or what web frameworks answer,
    /// `{"detail": ..}`.
    fn of_error(error: &Value) -> Self {
        let message = match error {
            Value::String(text) => Some(text.clone()),
            Value::Null => None,
            other => ["message", "detail", "error"]
                .iter()
                .find_map(|key| other.get(key)?.as_str())
                .map(str::to_owned)
                .or_else(|| Some(other.to_string())),
        };
        Self {
            message: message.filter(|text| !text.trim().is_empty()),
            words: error.to_string().to_lowercase(),
        }
    }

    fn has(&self, word: &str) -> bool {
        self.words.contains(word)
    }

    fn is_too_long(&self) -> bool {
        TOO_LONG.iter().any(|word| self.has(word))
    }

    fn message(&self, status: u16, at: &str) -> String {
        match &self.message {
            Some(message) => cut(message.trim(), MESSAGE_MAX),
            None => format!("{at} answered {status} and said nothing about it"),
        }
    }
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}...", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A short word for each kind of error.
    fn kind(error: &BackendError) -> &'static str {
        match error {
            BackendError::Authentication { .. } => "key",
            BackendError::RateLimited { .. } => "rate",
            BackendError::Server { .. } => "server",
            BackendError::ContextTooLong { .. } => "long",
            BackendError::Refused { .. } => "refused",
            _ => "other",
        }
    }

    /// Bodies as the providers document them, and as what stands in front of
    /// them answers.
    const ANSWERS: [(u16, &str, &str, &str); 25] = [
        // https://platform.openai.com/docs/guides/error-codes
        (
            400,
            r#"{"error":{"message":"Invalid value","type":"invalid_request_error","param":"x","code":null}}"#,
            "refused",
            "Invalid value",
        ),
        (
            401,
            r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}"#,
            "key",
            "Incorrect API key",
        ),
        (
            403,
            r#"{"error":{"message":"Country, region, or territory not supported"}}"#,
            "key",
            "Country",
        ),
        (
            404,
            r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#,
            "refused",
            "does not exist",
        ),
        (
            429,
            r#"{"error":{"message":"Rate limit reached","code":"rate_limit_exceeded"}}"#,
            "rate",
            "Rate limit",
        ),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            "refused",
            "quota",
        ),
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.","code":"context_length_exceeded"}}"#,
            "long",
            "128000",
        ),
        (
            400,
            r#"{"error":{"message":"Input tokens exceed the configured limit of 272000 tokens.","code":"context_length_exceeded"}}"#,
            "long",
            "272000",
        ),
        // https://platform.claude.com/docs/en/api/errors
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"},"request_id":"r"}"#,
            "long",
            "210000",
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}}"#,
            "long",
            "190000",
        ),
        (
            413,
            r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
            "long",
            "maximum size",
        ),
        (
            402,
            r#"{"type":"error","error":{"type":"billing_error","message":"Your credit balance is too low"}}"#,
            "refused",
            "credit",
        ),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "server",
            "Overloaded",
        ),
        // llama.cpp
        (
            400,
            r#"{"error":{"code":400,"message":"request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9412,"n_ctx":8192}}"#,
            "long",
            "9412",
        ),
        (
            503,
            r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
            "server",
            "Loading model",
        ),
        // vLLM, without an envelope as older ones answer
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 2048 tokens. However, you requested 2100 tokens","type":"BadRequestError","param":null,"code":400}"#,
            "long",
            "2048",
        ),
        (
            422,
            r#"{"detail":"Field required"}"#,
            "refused",
            "Field required",
        ),
        // Ollama
        (
            404,
            r#"{"error":"model 'x' not found"}"#,
            "refused",
            "model 'x' not found",
        ),
        (
            400,
            r#"{"error":"the input length exceeds the context length"}"#,
            "long",
            "input length",
        ),
        // OpenRouter
        (
            408,
            r#"{"error":{"code":408,"message":"Your request timed out"}}"#,
            "server",
            "timed out",
        ),
        // What stands in front of it
        (
            413,
            "<html>Request Entity Too Large</html>",
            "long",
            "answered 413",
        ),
        (
            502,
            "<html><h1>Bad Gateway</h1></html>",
            "server",
            "answered 502",
        ),
        (
            503,
            "upstream connect error",
            "server",
            "upstream connect error",
        ),
        (500, "", "server", "answered 500"),
        (418, r#"{"error":null}"#, "refused", "answered 418"),
    ];

    #[test]
    fn what_providers_answer() {
        for (status, body, expected, says) in ANSWERS {
            let error = of_status(status, None, body, "http://localhost");
            assert_eq!(kind(&error), expected, "{status} {body}: {error:?}");
            assert!(error.to_string().contains(says), "{error}");
            let again = matches!(expected, "rate" | "server");
            assert_eq!(error.is_retryable(), again, "{error}");
        }
    }

    #[test]
    fn what_providers_say_in_a_stream() {
        for (error, expected) in [
            (
                r#"{"type":"overloaded_error","message":"Overloaded"}"#,
                "server",
            ),
            (
                r#"{"type":"rate_limit_error","message":"slow down"}"#,
                "rate",
            ),
            (
                r#"{"type":"invalid_request_error","message":"no"}"#,
                "refused",
            ),
            (r#"{"type":"authentication_error","message":"no"}"#, "key"),
            (
                r#"{"type":"api_error","message":"Internal server error"}"#,
                "server",
            ),
            (
                r#"{"code":502,"message":"Provider disconnected"}"#,
                "server",
            ),
            (r#"{"code":429,"message":"Rate limited"}"#, "rate"),
            (
                r#"{"code":"server_error","message":"Provider disconnected"}"#,
                "server",
            ),
            (
                r#"{"code":"context_length_exceeded","message":"too long"}"#,
                "long",
            ),
            (
                r#""an error was encountered while running the model""#,
                "server",
            ),
            ("null", "server"),
            (r#"{"code":1e300}"#, "server"),
        ] {
            let value = serde_json::from_str(error).expect("an example");
            assert_eq!(kind(&in_stream(&value)), expected, "{error}");
        }
    }

    #[test]
    fn a_wait_is_passed_on_and_a_long_message_is_cut() {
        let wait = Some(Duration::from_secs(7));
        let long = "\u{e9}".repeat(MESSAGE_MAX + 1);
        for status in [429, 503, 529] {
            let error = of_status(status, wait, &long, "here");
            assert_eq!(error.retry_after(), wait);
            let shown = error.to_string().matches('\u{e9}').count();
            assert_eq!(shown, MESSAGE_MAX);
        }
    }
}
