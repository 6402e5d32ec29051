use serde_json::Value;

use super::failure;
use crate::{BackendError, Model};

/// The models in `answer[list]`, whose names are under `id`.
pub(super) fn list(
    answer: &Value,
    list: &str,
    id: &str,
    context: impl Fn(&Value) -> Option<u64>,
) -> Result<Vec<Model>, BackendError> {
    let models = answer
        .get(list)
        .and_then(Value::as_array)
        .ok_or_else(|| failure::malformed(format!("a list of models without {list:?}")))?;
    let model = |model: &Value| {
        Some(Model {
            id: model.get(id)?.as_str()?.to_owned(),
            context: context(model),
        })
    };
    Ok(models.iter().filter_map(model).collect())
}
