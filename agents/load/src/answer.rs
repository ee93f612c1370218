//! The judgement of the answer to an operation over HTTP.

use std::time::SystemTime;

use httparse::{Response, EMPTY_HEADER};
use memchr::memmem;
use serde_json::Value;

use crate::operation::{AnswerCheck, HttpRequest, PathStep, VirtualUser};
use crate::outcome::Outcome;

/// Fields of a head at most.
pub const FIELDS_MAX: usize = 128;

/// Bytes of a value that is taken from an answer, and of a cookie's line.
const VALUE_MAX: usize = 8192;

/// The fault of a complete answer, or of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// A status that is good.
    Status,
    /// The check of this number, from 1.
    Check(u16),
    /// The value at this place of the operation's `take`.
    Value(u16),
    /// A connection that is private: the reason.
    Tls(&'static str),
}

/// A whole answer.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// Its status.
    pub status: u16,
    /// Its status line and headers, to the empty line.
    pub head: &'a [u8],
    /// Its content.
    pub body: &'a [u8],
}

impl Answer<'_> {
    /// The outcome, and what it lacks; the user has its cookies and values then.
    pub fn judge(&self, request: &HttpRequest, user: &mut VirtualUser) -> (Outcome, Option<Lack>) {
        let mut fields = [EMPTY_HEADER; FIELDS_MAX];
        let mut parsed = Response::new(&mut fields);
        // It was parsed before.
        let _ = parsed.parse(self.head);
        let content = Content {
            headers: parsed.headers,
            body: self.body,
            document: std::cell::OnceCell::new(),
        };
        keep_cookies(user, parsed_cookies(&content));
        let is_good = |(low, high): &(u16, u16)| (*low..=*high).contains(&self.status);
        if !request.status.iter().any(is_good) {
            return (Outcome::BadStatus, Some(Lack::Status));
        }
        for (number, check) in request.checks.iter().enumerate() {
            if !content.passes(check) {
                return (Outcome::BadContent, Some(Lack::Check(number as u16 + 1)));
            }
        }
        for (place, take) in request.take.iter().enumerate() {
            match content.text(take.json_path.as_deref(), take.header.as_deref()) {
                Some(value) => drop(user.values.insert(take.name.clone(), value)),
                None => return (Outcome::BadContent, Some(Lack::Value(place as u16))),
            }
        }
        (Outcome::Ok, None)
    }
}

struct Content<'a> {
    headers: &'a [httparse::Header<'a>],
    body: &'a [u8],
    document: std::cell::OnceCell<Option<Value>>,
}

impl Content<'_> {
    fn passes(&self, check: &AnswerCheck) -> bool {
        if let Some(text) = &check.text {
            return memmem::find(self.body, text.as_bytes()).is_some();
        }
        if check.bytes_min.is_some() || check.bytes_max.is_some() {
            let size = self.body.len() as u64;
            return check.bytes_min.unwrap_or(0) <= size
                && size <= check.bytes_max.unwrap_or(u64::MAX);
        }
        let Some(value) = self.at(check.json_path.as_deref(), check.header.as_deref()) else {
            return false;
        };
        match (&check.contains, &check.equals) {
            (Some(part), _) => value.as_str().is_some_and(|text| text.contains(part)),
            (_, Some(expected)) => equal(&value, expected),
            _ => true,
        }
    }

    /// A value that a later request can hold, as text.
    fn text(&self, path: Option<&[PathStep]>, header: Option<&str>) -> Option<String> {
        match self.at(path, header)? {
            Value::Bool(value) => Some(value.to_string()),
            Value::Number(value) => Some(value.to_string()),
            Value::String(value) => {
                let is_forbidden = |character| matches!(character, '\r' | '\n' | '\0');
                (value.len() <= VALUE_MAX && !value.contains(is_forbidden)).then_some(value)
            }
            _ => None,
        }
    }

    fn at(&self, path: Option<&[PathStep]>, header: Option<&str>) -> Option<Value> {
        if let Some(name) = header {
            let mut headers = self.headers.iter();
            let field = headers.find(|header| header.name.eq_ignore_ascii_case(name))?;
            return Some(Value::from(latin(field.value)));
        }
        let parse = || serde_json::from_slice(self.body).ok();
        let mut value = self.document.get_or_init(parse).as_ref()?;
        for step in path? {
            value = match step {
                PathStep::Key(key) => value.as_object()?.get(key)?,
                PathStep::Place(place) => value.as_array()?.get(*place)?,
            };
        }
        Some(value.clone())
    }
}

/// Equal in JSON: 7 is 7.0, and true is not 1.
fn equal(value: &Value, expected: &Value) -> bool {
    match (value.as_f64(), expected.as_f64()) {
        (Some(a), Some(b)) => value == expected || a.total_cmp(&b).is_eq(),
        _ => value == expected,
    }
}

/// A header's bytes as text, each a character.
fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn parsed_cookies(content: &Content<'_>) -> Vec<String> {
    let set = |header: &&httparse::Header<'_>| {
        header.name.eq_ignore_ascii_case("set-cookie") && header.value.len() <= VALUE_MAX
    };
    let lines = content.headers.iter().filter(set);
    lines.map(|header| latin(header.value)).collect()
}

fn keep_cookies(user: &mut VirtualUser, lines: Vec<String>) {
    for line in lines {
        let mut parts = line.split(';');
        let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else {
            continue;
        };
        let name = name.trim();
        if name.is_empty() {
            continue;
        }
        if is_deleted(parts) {
            user.drop_cookie(name);
        } else {
            user.keep_cookie(name, value.trim());
        }
    }
}

fn is_deleted<'a>(attributes: impl Iterator<Item = &'a str>) -> bool {
    let mut past = false;
    for attribute in attributes {
        let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
        match name.trim().to_ascii_lowercase().as_str() {
            // It goes before the date.
            "max-age" => return value.trim().starts_with(['-', '0']),
            "expires" => {
                let ends = httpdate::parse_http_date(value.trim());
                past = ends.is_ok_and(|ends| ends <= SystemTime::now());
            }
            _ => {}
        }
    }
    past
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/json\r\n";
    const BODY: &str = r#"{"ok": true, "user": {"id": 7, "name": "Ann"}, "items": [{"id": 1.5}],
        "none": null}"#;

    fn request(status: &str, checks: &str, take: &str) -> HttpRequest {
        let text = format!(
            r#"{{"method": "GET", "path": [], "headers": [], "body": null, "status": {status},
                "checks": [{checks}], "take": [{take}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn outcome_of(
        request: &HttpRequest,
        user: &mut VirtualUser,
        status: u16,
        more: &str,
        body: &str,
    ) -> (Outcome, Option<Lack>) {
        let head = format!("{HEAD}{more}\r\n");
        let answer = Answer { status, head: head.as_bytes(), body: body.as_bytes() };
        answer.judge(request, user)
    }

    #[test]
    fn an_answer_is_good_if_its_checks_hold() {
        let size = BODY.len();
        let rows = [
            (r#""text": "\"Ann\"""#.to_owned(), true),
            (r#""text": "Bob""#.to_owned(), false),
            (r#""json_path": ["user", "id"], "equals": 7"#.to_owned(), true),
            (r#""json_path": ["user", "id"], "equals": 7.0"#.to_owned(), true),
            (r#""json_path": ["user", "id"], "equals": "7""#.to_owned(), false),
            (r#""json_path": ["ok"], "equals": true"#.to_owned(), true),
            (r#""json_path": ["ok"], "equals": 1"#.to_owned(), false),
            (r#""json_path": ["items", 0, "id"], "equals": 1.5"#.to_owned(), true),
            (r#""json_path": ["items", 1, "id"]"#.to_owned(), false),
            (r#""json_path": ["items", "id"]"#.to_owned(), false),
            (r#""json_path": ["none"]"#.to_owned(), true),
            (r#""json_path": ["user", "name"], "contains": "nn""#.to_owned(), true),
            (r#""json_path": ["user", "id"], "contains": "7""#.to_owned(), false),
            (r#""header": "content-type", "equals": "text/json""#.to_owned(), true),
            (r#""header": "Content-Type", "contains": "json""#.to_owned(), true),
            (r#""header": "Location""#.to_owned(), false),
            (format!(r#""bytes_min": {size}, "bytes_max": {size}"#), true),
            (format!(r#""bytes_max": {}"#, size - 1), false),
            (format!(r#""bytes_min": {}"#, size + 1), false),
        ];
        for (check, passes) in rows {
            let operation = request("[[200, 299]]", &format!("{{{check}}}"), "");
            let outcome = outcome_of(&operation, &mut VirtualUser::default(), 200, "", BODY);
            let expected = if passes {
                (Outcome::Ok, None)
            } else {
                (Outcome::BadContent, Some(Lack::Check(1)))
            };
            assert_eq!(outcome, expected, "{check}");
        }
    }

    #[test]
    fn a_status_that_is_not_expected_is_bad_whatever_the_content() {
        let operation = request("[[201, 201], [300, 399]]", "", "");
        let outcomes = [200, 201, 302, 404]
            .map(|status| outcome_of(&operation, &mut VirtualUser::default(), status, "", "").0);
        let bad = Outcome::BadStatus;
        assert_eq!(outcomes, [bad, Outcome::Ok, Outcome::Ok, bad]);
    }

    #[test]
    fn an_answer_without_the_token_that_later_steps_need_is_bad() {
        let take =
            r#"{"name": "token", "json_path": ["token"]}, {"name": "etag", "header": "ETag"}"#;
        let operation = request("[[200, 200]]", "", take);
        let mut user = VirtualUser::default();
        let etag = "etag: \"1\"\r\n";
        let good = outcome_of(&operation, &mut user, 200, etag, r#"{"token": 12}"#);
        assert_eq!(good, (Outcome::Ok, None));
        assert_eq!(user.values["token"], "12");
        assert_eq!(user.values["etag"], "\"1\"");
        for (more, body, lack) in [
            (etag, "{}", 0),
            (etag, "no JSON", 0),
            (etag, r#"{"token": "a\nb"}"#, 0),
            ("", r#"{"token": "a"}"#, 1),
        ] {
            let outcome = outcome_of(&operation, &mut user, 200, more, body);
            assert_eq!(outcome, (Outcome::BadContent, Some(Lack::Value(lack))), "{body}");
        }
    }

    #[test]
    fn cookies_are_kept_changed_and_deleted() {
        let operation = request("[[200, 200]]", "", "");
        let mut user = VirtualUser::default();
        let cookie = |user: &VirtualUser| {
            let bytes = operation.bytes("127.0.0.1", user);
            let text = String::from_utf8(bytes).unwrap();
            let mut lines = text.lines().filter_map(|line| line.strip_prefix("Cookie: "));
            lines.next().map(str::to_owned)
        };
        let first = "Set-Cookie: a=1; Path=/; HttpOnly\r\nset-cookie: b=x=y\r\n";
        outcome_of(&operation, &mut user, 200, first, "");
        assert_eq!(cookie(&user).unwrap(), "a=1; b=x=y");
        let past = "Set-Cookie: a=2; Max-Age=60\r\n\
                    Set-Cookie: b=; Expires=Thu, 01 Jan 1970 00:00:00 GMT\r\n";
        outcome_of(&operation, &mut user, 500, past, "");
        assert_eq!(cookie(&user).unwrap(), "a=2");
        let expiry = "Set-Cookie: a=2; Max-Age=0\r\nSet-Cookie: nonsense\r\n";
        outcome_of(&operation, &mut user, 200, expiry, "");
        assert_eq!(cookie(&user), None);
    }
}
