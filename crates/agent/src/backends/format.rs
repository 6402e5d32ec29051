use super::decode::Decode;
use super::{anthropic, ollama, openai};
use crate::{BackendError, Delta};

/// The format of a provider's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Server-sent events of Chat Completions.
    ChatCompletions,
    /// Server-sent events of Anthropic's Messages.
    Messages,
    /// Lines of Ollama's `/api/chat`.
    OllamaChat,
}

impl Format {
    /// Reads a stream that is there already, for example one that was kept for
    /// a test. How it is cut into chunks makes no difference.
    ///
    /// # Errors
    /// The second value is what a back end would have ended the reply with,
    /// after the deltas of the first.
    pub fn read<'a>(
        self,
        chunks: impl IntoIterator<Item = &'a [u8]>,
    ) -> (Vec<Delta>, Result<(), BackendError>) {
        let mut decoder: Box<dyn Decode> = match self {
            Self::ChatCompletions => Box::new(openai::Decoder::default()),
            Self::Messages => Box::new(anthropic::Decoder::default()),
            Self::OllamaChat => Box::new(ollama::Decoder::default()),
        };
        let mut deltas = Vec::new();
        let read = || {
            for chunk in chunks {
                decoder.feed(chunk, &mut deltas)?;
            }
            decoder.finish(&mut deltas)
        };
        let ended = read();
        (deltas, ended)
    }
}
