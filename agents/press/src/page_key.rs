//! The allowed keys of a page, from clients and peers.

/// Maximum length of a name.
const KEY_BYTES_MAX: usize = 512;

/// Letters, digits, `.`, `_` and `-` in segments that begin with no dot: a name leads to no file outside
/// of the root and to no hidden one.
pub fn is_key(key: &str) -> bool {
    let is_segment = |segment: &str| !segment.is_empty() && !segment.starts_with('.');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    key.len() <= KEY_BYTES_MAX && key.bytes().all(is_plain) && key.split('/').all(is_segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_root() {
        for key in ["page-1.html", "a/b_c/d.txt"] {
            assert!(is_key(key), "{key}");
        }
        for key in ["", "/etc/passwd", "../x", "a/../b", "a//b", ".git", "a/.b", "a b", "a\0", "é"]
        {
            assert!(!is_key(key), "{key}");
        }
        assert!(!is_key(&"a".repeat(KEY_BYTES_MAX + 1)));
    }
}
