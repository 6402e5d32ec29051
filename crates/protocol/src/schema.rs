use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

/// How deep schemas may be nested: an array of objects of arrays is three.
const DEPTH_MAX: usize = 8;
/// The most values that `enum` lists: each is compared with each argument, and
/// a model reads all of them.
const ENUM_MAX: usize = 256;

/// What one argument of a tool may be: a subset of JSON Schema (draft
/// 2020-12), in which `required` stands at the argument itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Schema {
    /// The type of its values.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// What it is for, in a sentence for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it has to be given. Default: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// Its value where none is given. Default: none, it is absent then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The only values it may have.
    #[serde(rename = "enum", default, skip_serializing_if = "Option::is_none")]
    pub one_of: Option<Vec<Value>>,
    /// Of an array: what its elements are. Default: anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Box<Schema>>,
    /// Of an object: its fields; others are refused. Default: anything. Also
    /// taken by the name that a tool's own arguments have.
    #[serde(default, alias = "parameters", skip_serializing_if = "Option::is_none")]
    pub properties: Option<BTreeMap<String, Schema>>,
    /// Of a number: the least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Number>,
    /// Of a number: the greatest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<Number>,
    /// Of a string: the fewest characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_length: Option<usize>,
    /// Of a string: the most characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
    /// Of an array: the fewest elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_items: Option<usize>,
    /// Of an array: the most elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_items: Option<usize>,
}

/// The types of JSON Schema that arguments may have, and one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Text.
    String,
    /// A number without a fraction; `5.0` is one and becomes `5`.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list.
    Array,
    /// Named fields.
    Object,
    /// Text, or [`crate::Octets`] where it is not UTF-8: a path, an argument
    /// of a program. A model is told that it is a string.
    Octets,
}

impl Kind {
    /// Its name in a tool's metadata.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Array => "array",
            Self::Object => "object",
            Self::Octets => "octets",
        }
    }
}

/// A value that does not fit, and where it is: `edits[2].old`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) path: String,
    pub(crate) problem: String,
}

impl Fault {
    fn new<T>(path: &str, problem: impl Into<String>) -> Result<T, Self> {
        Err(Self {
            path: path.to_owned(),
            problem: problem.into(),
        })
    }
}

impl Schema {
    /// A schema of this type and nothing else.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            description: None,
            required: false,
            default: None,
            one_of: None,
            items: None,
            properties: None,
            minimum: None,
            maximum: None,
            min_length: None,
            max_length: None,
            min_items: None,
            max_items: None,
        }
    }

    /// Whether the schema itself makes sense: what it says fits its type, and
    /// its default and the values it lists fit it.
    pub(crate) fn validate(&self, path: &str, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Fault::new(path, format!("nested deeper than {DEPTH_MAX}"));
        }
        let numeric = matches!(self.kind, Kind::Integer | Kind::Number);
        let misplaced = [
            ("items", self.items.is_some() && self.kind != Kind::Array),
            (
                "properties",
                self.properties.is_some() && self.kind != Kind::Object,
            ),
            ("minimum", self.minimum.is_some() && !numeric),
            ("maximum", self.maximum.is_some() && !numeric),
            (
                "minLength",
                self.min_length.is_some() && self.kind != Kind::String,
            ),
            (
                "maxLength",
                self.max_length.is_some() && self.kind != Kind::String,
            ),
            (
                "minItems",
                self.min_items.is_some() && self.kind != Kind::Array,
            ),
            (
                "maxItems",
                self.max_items.is_some() && self.kind != Kind::Array,
            ),
        ];
        if let Some((word, _)) = misplaced.iter().find(|(_, wrong)| *wrong) {
            let kind = self.kind.name();
            return Fault::new(path, format!("{word} says nothing about the type {kind}"));
        }
        if self.required && self.default.is_some() {
            return Fault::new(path, "has a default, so it cannot be required");
        }
        if self.one_of.as_ref().is_some_and(Vec::is_empty) {
            return Fault::new(path, "enum lists no value");
        }
        if self
            .one_of
            .as_ref()
            .is_some_and(|known| known.len() > ENUM_MAX)
        {
            let problem = format!("enum lists more than {ENUM_MAX} values");
            return Fault::new(path, problem);
        }
        for value in self.default.iter().chain(self.one_of.iter().flatten()) {
            self.check(path, &mut value.clone())?;
        }
        if let Some(items) = &self.items {
            items.validate(&format!("{path}[]"), depth + 1)?;
        }
        for (name, field) in self.properties.iter().flatten() {
            field.validate(&format!("{path}.{name}"), depth + 1)?;
        }
        Ok(())
    }

    /// Whether `value` fits; fills in defaults inside of it.
    pub(crate) fn check(&self, path: &str, value: &mut Value) -> Result<(), Fault> {
        self.check_kind(path, value)?;
        if let Some(known) = &self.one_of
            && !known.contains(value)
        {
            let list: Vec<_> = known.iter().map(Value::to_string).collect();
            return Fault::new(
                path,
                format!("expected one of {}, found {value}", list.join(", ")),
            );
        }
        match value {
            Value::Number(number) => self.check_bounds(path, number),
            Value::String(text) => self.check_length(path, text),
            Value::Array(items) => self.check_items(path, items),
            Value::Object(fields) if self.kind == Kind::Object => match &self.properties {
                Some(properties) => check_fields(properties, path, fields),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn check_kind(&self, path: &str, value: &mut Value) -> Result<(), Fault> {
        let fits = match (self.kind, &*value) {
            (Kind::String | Kind::Octets, Value::String(_))
            | (Kind::Number, Value::Number(_))
            | (Kind::Boolean, Value::Bool(_))
            | (Kind::Array, Value::Array(_))
            | (Kind::Object, Value::Object(_)) => true,
            (Kind::Octets, Value::Object(_)) => {
                serde_json::from_value::<crate::Octets>(value.clone()).is_ok()
            }
            (Kind::Integer, Value::Number(number)) => match whole(number) {
                Some(whole) => {
                    *value = Value::Number(whole);
                    true
                }
                None => false,
            },
            _ => false,
        };
        if fits {
            return Ok(());
        }
        let expected = match self.kind {
            Kind::Integer => "an integer",
            Kind::Array => "an array",
            Kind::Object => "an object",
            Kind::String => "a string",
            Kind::Number => "a number",
            Kind::Boolean => "true or false",
            Kind::Octets => "a string, or {\"base64\": \"...\"}",
        };
        Fault::new(path, format!("expected {expected}, found {}", named(value)))
    }

    fn check_bounds(&self, path: &str, number: &Number) -> Result<(), Fault> {
        let beyond = |bound: &Number, order| compare(number, bound) == Some(order);
        match (&self.minimum, &self.maximum) {
            (Some(least), _) if beyond(least, std::cmp::Ordering::Less) => {
                Fault::new(path, format!("{number} is less than {least}"))
            }
            (_, Some(most)) if beyond(most, std::cmp::Ordering::Greater) => {
                Fault::new(path, format!("{number} is more than {most}"))
            }
            _ => Ok(()),
        }
    }

    fn check_length(&self, path: &str, text: &str) -> Result<(), Fault> {
        if self.min_length.is_none() && self.max_length.is_none() {
            return Ok(());
        }
        within(
            path,
            text.chars().count(),
            "characters",
            self.min_length,
            self.max_length,
        )
    }

    fn check_items(&self, path: &str, items: &mut [Value]) -> Result<(), Fault> {
        within(
            path,
            items.len(),
            "elements",
            self.min_items,
            self.max_items,
        )?;
        let Some(schema) = &self.items else {
            return Ok(());
        };
        for (at, item) in items.iter_mut().enumerate() {
            schema.check(&format!("{path}[{at}]"), item)?;
        }
        Ok(())
    }
}

/// Whether an object has what `properties` require and nothing else; fills in
/// defaults. `null` in the place of what may be left out is as good as absent,
/// because some models write it.
pub(crate) fn check_fields(
    properties: &BTreeMap<String, Schema>,
    path: &str,
    fields: &mut Map<String, Value>,
) -> Result<(), Fault> {
    let inner = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    fields.retain(|name, value| {
        !(value.is_null() && properties.get(name).is_some_and(|it| !it.required))
    });
    if let Some(name) = fields.keys().find(|name| !properties.contains_key(*name)) {
        let known: Vec<_> = properties.keys().map(String::as_str).collect();
        let known = match known.as_slice() {
            [] => "none are known".to_owned(),
            known => format!("known are {}", known.join(", ")),
        };
        return Fault::new(&inner(name), format!("is not known; {known}"));
    }
    for (name, schema) in properties {
        match fields.get_mut(name) {
            Some(value) => schema.check(&inner(name), value)?,
            None if schema.required => return Fault::new(&inner(name), "is missing"),
            None => {
                if let Some(default) = &schema.default {
                    fields.insert(name.clone(), default.clone());
                }
            }
        }
    }
    Ok(())
}

fn within(
    path: &str,
    found: usize,
    what: &str,
    least: Option<usize>,
    most: Option<usize>,
) -> Result<(), Fault> {
    if let Some(least) = least.filter(|least| found < *least) {
        return Fault::new(
            path,
            format!("has {found} {what}, at least {least} are needed"),
        );
    }
    if let Some(most) = most.filter(|most| found > *most) {
        return Fault::new(
            path,
            format!("has {found} {what}, at most {most} are taken"),
        );
    }
    Ok(())
}

/// The number without a fraction of zero; `None` if it has another.
fn whole(number: &Number) -> Option<Number> {
    if number.is_i64() || number.is_u64() {
        return Some(number.clone());
    }
    // Above 2^53 a float says no single integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64()?;
    (float.fract() == 0.0 && float.abs() <= EXACT).then(|| {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it has no fraction and is below 2^53"
        )]
        let whole = float as i64;
        whole.into()
    })
}

fn compare(one: &Number, other: &Number) -> Option<std::cmp::Ordering> {
    if let (Some(one), Some(other)) = (one.as_i64(), other.as_i64()) {
        return Some(one.cmp(&other));
    }
    if let (Some(one), Some(other)) = (one.as_u64(), other.as_u64()) {
        return Some(one.cmp(&other));
    }
    one.as_f64()?.partial_cmp(&other.as_f64()?)
}

fn named(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_f64() => "a number with a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(json: Value) -> Schema {
        serde_json::from_value(json).unwrap()
    }

    fn fault(schema_json: Value, mut value: Value) -> String {
        match schema(schema_json).check("x", &mut value) {
            Ok(()) => String::new(),
            Err(fault) => format!("{}: {}", fault.path, fault.problem),
        }
    }

    #[test]
    fn a_value_of_another_type_is_named_with_its_path() {
        for (schema, value, says) in [
            (
                json!({"type": "string"}),
                json!(5),
                "x: expected a string, found a number",
            ),
            (
                json!({"type": "integer"}),
                json!("5"),
                "x: expected an integer, found a string",
            ),
            (
                json!({"type": "integer"}),
                json!(5.5),
                "x: expected an integer, found a number with a fraction",
            ),
            (
                json!({"type": "boolean"}),
                json!("yes"),
                "x: expected true or false, found a string",
            ),
            (
                json!({"type": "integer", "minimum": 1}),
                json!(0),
                "x: 0 is less than 1",
            ),
            (
                json!({"type": "number", "maximum": 1}),
                json!(1.5),
                "x: 1.5 is more than 1",
            ),
            (
                json!({"type": "string", "enum": ["a", "b"]}),
                json!("c"),
                "x: expected one of \"a\", \"b\", found \"c\"",
            ),
            (
                json!({"type": "string", "maxLength": 2}),
                json!("äöü"),
                "x: has 3 characters, at most 2 are taken",
            ),
            (
                json!({"type": "array", "items": {"type": "integer"}}),
                json!([1, "2"]),
                "x[1]: expected an integer, found a string",
            ),
            (
                json!({"type": "array", "minItems": 1}),
                json!([]),
                "x: has 0 elements, at least 1 are needed",
            ),
            (
                json!({"type": "array", "items": {"type": "object", "properties": {"old": {"type": "string", "required": true}}}}),
                json!([{"old": "a"}, {}]),
                "x[1].old: is missing",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}}),
                json!({"b": 1}),
                "x.b: is not known; known are a",
            ),
            (
                json!({"type": "octets"}),
                json!({"base64": "!"}),
                "x: expected a string, or {\"base64\": \"...\"}, found an object",
            ),
        ] {
            assert_eq!(fault(schema, value), says);
        }
    }

    #[test]
    fn what_fits_passes_and_defaults_are_filled_in() {
        for (schema, value) in [
            (json!({"type": "integer"}), json!(-3)),
            (json!({"type": "number"}), json!(2)),
            (json!({"type": "octets"}), json!({"base64": "/w=="})),
            (json!({"type": "array"}), json!([1, "a", null])),
            (json!({"type": "object"}), json!({"any": 1})),
            (
                json!({"type": "integer", "maximum": u64::MAX}),
                json!(u64::MAX),
            ),
        ] {
            assert_eq!(fault(schema, value), "");
        }
        let mut whole = json!(5.0);
        schema(json!({"type": "integer"}))
            .check("x", &mut whole)
            .unwrap();
        assert_eq!(whole, json!(5));
        let mut object = json!({"b": null});
        let fields = json!({"type": "object", "properties": {
            "a": {"type": "integer", "default": 3}, "b": {"type": "string"}}});
        schema(fields).check("x", &mut object).unwrap();
        assert_eq!(object, json!({"a": 3}));
    }

    #[test]
    fn a_schema_that_contradicts_itself_is_refused() {
        for (json, says) in [
            (
                json!({"type": "string", "items": {"type": "string"}}),
                "items",
            ),
            (json!({"type": "string", "minimum": 1}), "minimum"),
            (
                json!({"type": "integer", "default": "a"}),
                "expected an integer",
            ),
            (
                json!({"type": "integer", "default": 1, "required": true}),
                "required",
            ),
            (json!({"type": "string", "enum": []}), "enum"),
            (
                json!({"type": "string", "enum": ["a"], "default": "b"}),
                "one of",
            ),
        ] {
            let fault = schema(json).validate("x", 0).unwrap_err();
            assert!(fault.problem.contains(says), "{fault:?}");
        }
        let mut deep = Schema::new(Kind::Array);
        for _ in 0..DEPTH_MAX {
            let mut outer = Schema::new(Kind::Array);
            outer.items = Some(Box::new(deep));
            deep = outer;
        }
        assert!(deep.validate("x", 0).is_ok());
        let mut outer = Schema::new(Kind::Array);
        outer.items = Some(Box::new(deep));
        assert!(outer.validate("x", 0).is_err());
    }

    proptest::proptest! {
        /// A float is taken for an integer exactly if it is one.
        #[test]
        fn an_integer_may_be_written_as_a_float(number in -1_000_000i64..1_000_000) {
            #[expect(clippy::cast_precision_loss, reason = "it is small")]
            let mut value = json!(number as f64);
            let fits = Schema::new(Kind::Integer).check("x", &mut value);
            proptest::prop_assert!(fits.is_ok());
            proptest::prop_assert_eq!(value, json!(number));
        }
    }
}
