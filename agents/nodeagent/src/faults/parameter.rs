//! The parameters of a fault, stated once next to the fault: the agent checks requests by it,
//! and `nodeagent --kinds` prints it for those who write designs.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// The values that a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    Number,
    Integer,
    String,
}

/// A default value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Default {
    Number(#[serde(serialize_with = "plain")] f64),
    Text(&'static str),
}

/// One parameter. Without a default, an absent one that is not required is null.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Parameter {
    name: &'static str,
    summary: &'static str,
    #[serde(rename = "type")]
    kind: Type,
    required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<Default>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "bound")]
    minimum: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "bound")]
    exclusive_minimum: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "bound")]
    maximum: Option<f64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    values: &'static [&'static str],
}

/// Slow-down factor; limpbench uses 10, 100 and 1000.
pub const FACTOR: Parameter =
    Parameter::number("factor", "how many times slower").above(1.0).at_most(1e6);

impl Parameter {
    /// A required number without bounds.
    pub const fn number(name: &'static str, summary: &'static str) -> Self {
        Self {
            name,
            summary,
            kind: Type::Number,
            required: true,
            unit: None,
            default: None,
            minimum: None,
            exclusive_minimum: None,
            maximum: None,
            values: &[],
        }
    }

    /// A required whole number.
    pub const fn integer(name: &'static str, summary: &'static str) -> Self {
        Self { kind: Type::Integer, ..Self::number(name, summary) }
    }

    /// A required text.
    pub const fn string(name: &'static str, summary: &'static str) -> Self {
        Self { kind: Type::String, ..Self::number(name, summary) }
    }

    /// The unit of its value.
    pub const fn in_unit(self, unit: &'static str) -> Self {
        Self { unit: Some(unit), ..self }
    }

    /// The least value.
    pub const fn at_least(self, minimum: f64) -> Self {
        Self { minimum: Some(minimum), ..self }
    }

    /// The value below all that are allowed.
    pub const fn above(self, exclusive_minimum: f64) -> Self {
        Self { exclusive_minimum: Some(exclusive_minimum), ..self }
    }

    /// The greatest value.
    pub const fn at_most(self, maximum: f64) -> Self {
        Self { maximum: Some(maximum), ..self }
    }

    /// The only texts allowed.
    pub const fn one_of(self, values: &'static [&'static str]) -> Self {
        Self { values, ..self }
    }

    /// Makes it optional.
    pub const fn optional(self) -> Self {
        Self { required: false, ..self }
    }

    /// Makes it optional, with a default.
    pub const fn or(self, default: Default) -> Self {
        Self { default: Some(default), ..self.optional() }
    }

    /// The value with the default filled in.
    fn complete(&self, input: Option<&Value>) -> Result<Value, String> {
        let value = match input {
            None | Some(Value::Null) if self.required => {
                return Err(format!("{}: expected {} (got none)", self.name, self.expected()))
            }
            None | Some(Value::Null) => return Ok(serde_json::json!(self.default)),
            Some(value) => value,
        };
        if self.allows(value) {
            return Ok(value.clone());
        }
        Err(format!("{}: expected {} (got {value})", self.name, self.expected()))
    }

    fn allows(&self, value: &Value) -> bool {
        match (self.kind, value) {
            (Type::String, Value::String(text)) => {
                self.values.is_empty() || self.values.contains(&text.as_str())
            }
            (Type::Integer, Value::Number(number)) if !number.is_u64() => false,
            (Type::Number | Type::Integer, Value::Number(number)) => {
                let number = number.as_f64().unwrap_or(f64::NAN);
                number.is_finite()
                    && !self.minimum.is_some_and(|least| number < least)
                    && !self.exclusive_minimum.is_some_and(|below| number <= below)
                    && !self.maximum.is_some_and(|most| number > most)
            }
            _ => false,
        }
    }

    fn expected(&self) -> String {
        let mut text = match self.kind {
            Type::Number => "a number".to_owned(),
            Type::Integer => "a whole number".to_owned(),
            Type::String if self.values.is_empty() => "a text".to_owned(),
            Type::String => format!("one of {}", self.values.join(", ")),
        };
        for (word, bound) in [
            (" of at least", self.minimum),
            (" over", self.exclusive_minimum),
            (" up to", self.maximum),
        ] {
            if let Some(bound) = bound {
                text += &format!("{word} {bound}");
            }
        }
        text
    }
}

/// The parameters with their defaults filled in; unknown and impossible ones are refused.
pub fn complete(allowed: &[Parameter], input: &Value) -> Result<Value, String> {
    let input = input.as_object().ok_or_else(|| format!("expected an object (got {input})"))?;
    let is_known = |name: &String| allowed.iter().any(|parameter| parameter.name == name);
    if let Some(name) = input.keys().find(|name| !is_known(name)) {
        let names: Vec<&str> = allowed.iter().map(|parameter| parameter.name).collect();
        let names = names.join(", ");
        return Err(format!("{name}: expected one of {names}"));
    }
    let mut complete = Map::new();
    for parameter in allowed {
        let value = parameter.complete(input.get(parameter.name));
        complete.insert(parameter.name.to_owned(), value?);
    }
    Ok(Value::Object(complete))
}

/// Writes whole numbers without a decimal point.
fn plain<S: Serializer>(number: &f64, to: S) -> Result<S::Ok, S::Error> {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        to.serialize_i64(*number as i64)
    } else {
        to.serialize_f64(*number)
    }
}

fn bound<S: Serializer>(number: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => plain(number, to),
        None => to.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ALL: [Parameter; 4] = [
        FACTOR,
        Parameter::integer("workers", "how many")
            .at_least(1.0)
            .at_most(64.0)
            .or(Default::Number(4.0)),
        Parameter::number("mbps", "how fast").optional(),
        Parameter::string("way", "where").one_of(&["in", "out"]).or(Default::Text("in")),
    ];

    #[test]
    fn absent_parameters_get_their_defaults() {
        let complete = complete(&ALL, &json!({"factor": 1.5, "mbps": null})).unwrap();
        assert_eq!(complete, json!({"factor": 1.5, "workers": 4, "mbps": null, "way": "in"}));
    }

    #[test]
    fn impossible_parameters_are_refused() {
        for (input, name) in [
            (json!({}), "factor"),
            (json!({"factor": 1}), "factor"),
            (json!({"factor": -3}), "factor"),
            (json!({"factor": 2e6}), "factor"),
            (json!({"factor": "2"}), "factor"),
            (json!({"factor": 2, "workers": 0}), "workers"),
            (json!({"factor": 2, "workers": 1.5}), "workers"),
            (json!({"factor": 2, "way": "up"}), "way"),
            (json!({"factor": 2, "speed": 1}), "speed"),
            (json!([]), "object"),
        ] {
            let error = complete(&ALL, &input).unwrap_err();
            assert!(error.contains(name), "{input}: {error}");
        }
    }

    #[test]
    fn a_description_holds_only_what_is_said() {
        assert_eq!(
            json!(FACTOR),
            json!({"name": "factor", "summary": "how many times slower", "type": "number",
                   "required": true, "exclusive_minimum": 1, "maximum": 1_000_000})
        );
    }
}
