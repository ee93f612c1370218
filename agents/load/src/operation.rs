//! One operation over HTTP: its bytes for an arrival's values and cookies.
//!
//! The judgement of its answer stands in `answer.rs`. Python's worker does both alike
//! (`experiments/load/http_operation.py`).

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;
use serde_json::Value;

/// Cookies that a session keeps at most.
const COOKIES_MAX: usize = 50;

/// A request, and the answers that are good (`HttpRequest` of `contracts/load-plan.schema.json`).
#[derive(Debug, Clone, Deserialize)]
pub struct HttpRequest {
    /// Method.
    pub method: String,
    path: Vec<Part>,
    headers: Vec<(String, Vec<Part>)>,
    body: Option<Vec<Part>>,
    /// Ranges of good statuses, both ends within.
    pub status: Vec<(u16, u16)>,
    /// Conditions on a good answer.
    pub checks: Vec<AnswerCheck>,
    /// Values that a good answer gives.
    pub take: Vec<TakenValue>,
}

/// Bytes, each a character of `text`; or the value of that name.
#[derive(Debug, Clone, Deserialize)]
struct Part {
    text: String,
    value: String,
    encoding: Encoding,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    Plain,
    Path,
    Json,
    Form,
}

/// A step into a JSON value.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum PathStep {
    /// A key of an object.
    Key(String),
    /// A place of a list.
    Place(usize),
}

/// A condition on an answer.
#[derive(Debug, Clone, Deserialize)]
pub struct AnswerCheck {
    /// The body contains it.
    pub text: Option<String>,
    /// Path of a value in the body.
    pub json_path: Option<Vec<PathStep>>,
    /// Name of a header.
    pub header: Option<String>,
    /// The value found is this.
    pub equals: Option<Value>,
    /// The value found contains this.
    pub contains: Option<String>,
    /// The body's size.
    pub bytes_min: Option<u64>,
    /// The body's size.
    pub bytes_max: Option<u64>,
}

/// A value that later steps use, and where the answer has it.
#[derive(Debug, Clone, Deserialize)]
pub struct TakenValue {
    /// Name of the variable.
    pub name: String,
    /// Path of its value in the body.
    pub json_path: Option<Vec<PathStep>>,
    /// Header with its value.
    pub header: Option<String>,
}

/// The values of an arrival, and the cookies of its session.
#[derive(Debug, Clone, Default)]
pub struct VirtualUser {
    /// Values by name.
    pub values: BTreeMap<String, String>,
    cookies: Vec<(String, String)>,
}

impl VirtualUser {
    /// Keeps a cookie, in place of one of that name.
    pub fn keep_cookie(&mut self, name: &str, value: &str) {
        if let Some(cookie) = self.cookies.iter_mut().find(|(key, _)| key == name) {
            value.clone_into(&mut cookie.1);
        } else if self.cookies.len() < COOKIES_MAX {
            self.cookies.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Forgets a cookie.
    pub fn drop_cookie(&mut self, name: &str) {
        self.cookies.retain(|(key, _)| key != name);
    }
}

impl HttpRequest {
    /// The whole request, as it is sent.
    pub fn bytes(&self, host: &str, user: &VirtualUser) -> Vec<u8> {
        let body = self.body.as_ref().map(|parts| joined(parts, user));
        let mut out = self.method.as_bytes().to_vec();
        out.push(b' ');
        append(&mut out, &self.path, user);
        out.extend(b" HTTP/1.1\r\n");
        for (name, value) in [("Host", host), ("User-Agent", "sparecraft"), ("Accept", "*/*")] {
            if !self.states(name) {
                field(&mut out, name, value.as_bytes());
            }
        }
        for (name, parts) in &self.headers {
            field(&mut out, name, &joined(parts, user));
        }
        if !user.cookies.is_empty() && !self.states("cookie") {
            let pairs = user.cookies.iter();
            let pairs: Vec<_> = pairs.map(|(name, value)| format!("{name}={value}")).collect();
            field(&mut out, "Cookie", pairs.join("; ").as_bytes());
        }
        let has_body = matches!(self.method.as_str(), "POST" | "PUT" | "PATCH");
        if body.is_some() || has_body {
            let length = body.as_ref().map_or(0, Vec::len);
            field(&mut out, "Content-Length", length.to_string().as_bytes());
        }
        out.extend(b"\r\n");
        out.extend(body.unwrap_or_default());
        out
    }

    /// True if its answers have no body.
    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    fn states(&self, name: &str) -> bool {
        let mut headers = self.headers.iter();
        headers.any(|(key, _)| key.eq_ignore_ascii_case(name))
    }
}

fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend(name.as_bytes());
    out.extend(b": ");
    out.extend(value);
    out.extend(b"\r\n");
}

fn joined(parts: &[Part], user: &VirtualUser) -> Vec<u8> {
    let mut out = vec![];
    append(&mut out, parts, user);
    out
}

fn append(out: &mut Vec<u8>, parts: &[Part], user: &VirtualUser) {
    for part in parts {
        // Each is of one byte; the value is there, since the design was checked.
        out.extend(part.text.chars().map(|character| character as u8));
        if let Some(value) = user.values.get(&part.value) {
            match part.encoding {
                Encoding::Plain => out.extend(value.as_bytes()),
                Encoding::Path => out.extend(percent(value, "%20").as_bytes()),
                Encoding::Form => out.extend(percent(value, "+").as_bytes()),
                Encoding::Json => {
                    let quoted = Value::from(value.as_str()).to_string();
                    out.extend(&quoted.as_bytes()[1..quoted.len() - 1]);
                }
            }
        }
    }
}

/// All but unreserved characters by their bytes.
fn percent(value: &str, space: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'.' | b'-' | b'~' => {
                out.push(char::from(byte));
            }
            b' ' => out.push_str(space),
            // A string takes all.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request for a value `v` in its path, headers and body.
    const REQUEST: &str = r#"{
        "method": "POST",
        "path": [{"text": "/u/", "value": "", "encoding": "plain"},
                 {"text": "", "value": "v", "encoding": "path"}],
        "headers": [["X-User", [{"text": "", "value": "v", "encoding": "plain"}]],
                    ["host", [{"text": "shop", "value": "", "encoding": "plain"}]]],
        "body": [{"text": "\u00ff{\"a\":\"", "value": "", "encoding": "plain"},
                 {"text": "", "value": "v", "encoding": "json"},
                 {"text": "\"}&", "value": "", "encoding": "plain"},
                 {"text": "", "value": "v", "encoding": "form"}],
        "status": [[200, 299]], "checks": [], "take": []
    }"#;

    #[test]
    fn a_value_is_put_into_the_encoding_of_its_place() {
        let request: HttpRequest = serde_json::from_str(REQUEST).unwrap();
        let mut user = VirtualUser::default();
        user.values.insert("v".to_owned(), "a /\"ü".to_owned());
        user.keep_cookie("sid", "1");
        user.keep_cookie("b", "2");
        user.keep_cookie("sid", "3");
        user.keep_cookie("c", "4");
        user.drop_cookie("c");
        let bytes = request.bytes("127.0.0.1:81", &user);
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let body = "{\"a\":\"a /\\\"ü\"}&a+%2F%22%C3%BC";
        assert_eq!(
            head.split("\r\n").collect::<Vec<_>>(),
            [
                "POST /u/a%20%2F%22%C3%BC HTTP/1.1",
                "User-Agent: sparecraft",
                "Accept: */*",
                "X-User: a /\"ü",
                "host: shop",
                "Cookie: sid=3; b=2",
                &format!("Content-Length: {}", body.len() + 1),
            ]
        );
        assert_eq!(bytes[end + 4], 0xff);
        assert_eq!(&bytes[end + 5..], body.as_bytes());
    }
}
