use std::io::Read;

use serde::de::DeserializeOwned;

use crate::error::Error;

/// Nobody writes a file of this size through a model.
const LIMIT: u64 = 32 << 20;

/// Reads a tool's arguments to the end.
pub(crate) fn parse<T: DeserializeOwned>(reader: &mut dyn Read) -> Result<T, Error> {
    let mut json = Vec::new();
    reader
        .take(LIMIT + 1)
        .read_to_end(&mut json)
        .map_err(|source| Error::Input { source })?;
    if json.len() as u64 > LIMIT {
        return Err(Error::value("arguments", "are longer than 32 MiB"));
    }
    serde_json::from_slice(&json).map_err(|source| Error::Arguments { source })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[expect(dead_code, reason = "only the parser looks at it")]
        wanted: u8,
    }

    fn refusal(json: &str) -> String {
        let error = parse::<Sample>(&mut json.as_bytes()).unwrap_err();
        assert_eq!(error.status(), 2, "{error}");
        error.chain()
    }

    #[test]
    fn an_error_names_the_field() {
        assert!(refusal("{}").contains("`wanted`"));
        assert!(refusal(r#"{"wanted": 1, "more": 2}"#).contains("`more`"));
        assert!(refusal("").starts_with("the arguments are not"));
    }
}
