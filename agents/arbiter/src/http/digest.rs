//! The digest of a reply: status, fields, and the data of the body, computed while it arrives.
//!
//! Left out: the framing of the body (a chunked body and one with a length may be equal), the
//! connection's fields, fields that may differ (`compare.ignored_fields`), the reason phrase,
//! trailers, interim replies. A body is used in its coding, so servers with different compression
//! differ.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use smallvec::SmallVec;

use super::body::{Body, Framing};
use super::head::ResponseHead;
use crate::comparing::Digest;
use crate::voting::ReplyVote;

/// A reply that is compared with others.
pub struct ReplyHasher {
    ballot: Arc<ReplyVote>,
    hash: Sha256,
    /// Removes the framing of chunks.
    chunks: Option<Body>,
    /// Bytes of the body so far.
    bytes: usize,
    is_too_large: bool,
}

impl ReplyHasher {
    /// Starts with the head of a reply.
    pub fn new(ballot: Arc<ReplyVote>, head: &ResponseHead) -> Self {
        let mut hash = Sha256::new();
        add_head(&mut hash, head, &ballot.rules.ignored_fields);
        Self {
            ballot,
            hash,
            chunks: (head.framing == Framing::Chunked).then(|| Body::new(Framing::Chunked)),
            bytes: 0,
            is_too_large: false,
        }
    }

    /// Adds the next bytes of the body, with their framing.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        if self.is_too_large {
            return;
        }
        if self.bytes > self.ballot.rules.bytes_max {
            self.too_large();
            return;
        }
        match &mut self.chunks {
            None => self.hash.update(bytes),
            // The same bytes were followed before: the framing is not broken.
            Some(body) => {
                let _ = body.data(bytes, |piece| self.hash.update(piece));
            }
        }
    }

    /// Excludes the reply from the comparison because of its size.
    pub fn too_large(&mut self) {
        if !std::mem::replace(&mut self.is_too_large, true) {
            self.ballot.too_large();
        }
    }

    /// Casts the vote of a complete good reply; none if it was too large.
    pub fn vote(self, server: policy::ServerId) -> Option<Digest> {
        if self.is_too_large {
            return None;
        }
        let digest = self.hash.finalize().into();
        self.ballot.vote(server, digest);
        Some(digest)
    }
}

/// Adds status and fields, the fields sorted by name.
fn add_head(hash: &mut Sha256, head: &ResponseHead, ignored: &[String]) {
    hash.update(head.status.to_be_bytes());
    let lines = head.forward.split(|&byte| byte == b'\n').skip(1);
    let mut fields: SmallVec<[(Vec<u8>, &[u8]); 16]> = lines
        .filter_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            let name = line[..colon].to_ascii_lowercase();
            let is_left_out =
                is_framing(&name, head.framing) || ignored.iter().any(|it| it.as_bytes() == name);
            (!is_left_out).then(|| (name, line[colon + 1..].trim_ascii()))
        })
        .collect();
    // Those of one name stay in their order.
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    for (name, value) in fields {
        for part in [&name[..], b":", value, b"\n"] {
            hash.update(part);
        }
    }
    hash.update(b"\n");
}

/// True if a field only delimits the body. Without a body, as in the reply to HEAD and in a 304,
/// the length is content.
fn is_framing(name: &[u8], framing: Framing) -> bool {
    matches!(name, b"transfer-encoding" | b"trailer")
        || (name == b"content-length" && framing != Framing::Empty)
}
