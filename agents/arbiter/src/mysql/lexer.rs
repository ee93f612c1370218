//! Splits a statement into words, quoted texts and symbols, as far as its class needs.

/// A token of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    /// A keyword, an unquoted name or a number; also a system variable's name.
    Word(&'a [u8]),
    /// A name in backticks.
    Quoted(&'a [u8]),
    /// A text in single or double quotes.
    Text,
    /// `@name`, without its name.
    UserVariable,
    /// `:=`
    Assign,
    /// Anything else, byte by byte.
    Symbol(u8),
}

/// Iterates over a statement's tokens.
pub struct Lexer<'a> {
    rest: &'a [u8],
    /// True within `/*! */`, which servers execute.
    executed: bool,
    odd: bool,
}

impl<'a> Lexer<'a> {
    /// Starts at the beginning of a statement.
    pub fn new(sql: &'a [u8]) -> Self {
        Self { rest: sql, executed: false, odd: false }
    }

    /// True if the text cannot be judged: a comment that only some versions execute (`/*!50000 */`,
    /// `/*M! */`), or an unterminated text or comment.
    pub fn is_odd(&self) -> bool {
        self.odd
    }

    /// The next token; none at the end, or at something odd.
    pub fn next_token(&mut self) -> Option<Token<'a>> {
        self.skip_blanks();
        let (&first, after) = self.rest.split_first()?;
        match first {
            b'\'' | b'"' => {
                self.quoted(first, true)?;
                Some(Token::Text)
            }
            b'`' => self.quoted(first, false).map(Token::Quoted),
            b'@' => self.variable(after),
            b':' if after.first() == Some(&b'=') => {
                self.rest = &after[1..];
                Some(Token::Assign)
            }
            _ if is_word(first) => Some(Token::Word(self.word())),
            _ => {
                self.rest = after;
                Some(Token::Symbol(first))
            }
        }
    }

    fn skip_blanks(&mut self) {
        loop {
            let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
            let blanks = self.rest.iter().take_while(|byte| is_blank(byte)).count();
            self.rest = &self.rest[blanks..];
            let to_line_end = match self.rest {
                [b'#', ..] => true,
                [b'-', b'-', next, ..] => is_blank(next) || next.is_ascii_control(),
                [b'-', b'-'] => true,
                _ => false,
            };
            if to_line_end {
                let line = self.rest.iter().position(|&byte| byte == b'\n');
                self.rest = &self.rest[line.unwrap_or(self.rest.len())..];
            } else if self.rest.starts_with(b"/*") {
                self.comment();
            } else if self.executed && self.rest.starts_with(b"*/") {
                self.executed = false;
                self.rest = &self.rest[2..];
            } else {
                self.odd |= self.executed && self.rest.is_empty();
                return;
            }
        }
    }

    fn comment(&mut self) {
        match self.rest {
            _ if self.executed => self.give_up(),
            // Every server executes it: it is read as if it stood there without the comment.
            [_, _, b'!', next, ..] if !next.is_ascii_digit() => {
                self.executed = true;
                self.rest = &self.rest[3..];
            }
            [_, _, b'!', ..] | [_, _, b'M' | b'm', b'!', ..] => self.give_up(),
            _ => match self.rest[2..].windows(2).position(|two| two == b"*/") {
                Some(end) => self.rest = &self.rest[2 + end + 2..],
                None => self.give_up(),
            },
        }
    }

    /// Reads a quoted token without its quotes (a doubled quote stays doubled).
    fn quoted(&mut self, quote: u8, backslash_escapes: bool) -> Option<&'a [u8]> {
        let mut at = 1;
        while let Some(&byte) = self.rest.get(at) {
            let doubled = byte == quote && self.rest.get(at + 1) == Some(&quote);
            if doubled || (byte == b'\\' && backslash_escapes) {
                at += 2;
            } else if byte == quote {
                let inside = &self.rest[1..at];
                self.rest = &self.rest[at + 1..];
                return Some(inside);
            } else {
                at += 1;
            }
        }
        self.give_up();
        None
    }

    /// Reads `@user` or `@@system`; the parts of a system variable follow as words.
    fn variable(&mut self, after: &'a [u8]) -> Option<Token<'a>> {
        if after.first() == Some(&b'@') {
            self.rest = &after[1..];
            return Some(Token::Symbol(b'@'));
        }
        self.rest = after;
        match after.first() {
            Some(&quote @ (b'\'' | b'"' | b'`')) => {
                self.quoted(quote, quote != b'`')?;
            }
            _ => {
                self.word();
            }
        }
        Some(Token::UserVariable)
    }

    fn word(&mut self) -> &'a [u8] {
        let length = self.rest.iter().take_while(|byte| is_word(**byte)).count();
        let (word, rest) = self.rest.split_at(length);
        self.rest = rest;
        word
    }

    fn give_up(&mut self) {
        self.odd = true;
        self.rest = &[];
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}
