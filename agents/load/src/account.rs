//! The account of an entry.

/// The account of a URL: `mysql://USER:PASSWORD@ADDRESS/DATABASE`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// User name in the URL.
    pub user: String,
    /// Empty: none.
    pub password: String,
    /// Empty: none.
    pub database: String,
}
