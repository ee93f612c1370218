//! Tables of the agent's own in the data interface's netdev hooks, by `nft`.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Refusal;
use crate::machine::command::{run, run_with_input};

/// A table with a chain in each of these hooks of an interface; the rules of a chain depend on its hook.
pub fn table(
    name: &str,
    interface: &str,
    hooks: &[String],
    rules: impl Fn(&str) -> String,
) -> String {
    let chain = |hook: &String| {
        let rules = rules(hook);
        format!(
            "chain {hook} {{ type filter hook {hook} device \"{interface}\" priority -10; \
             policy accept\n{rules}}}\n"
        )
    };
    let chains: String = hooks.iter().map(chain).collect();
    format!("table netdev {name} {{\n{chains}}}\n")
}

/// Loads rules into the kernel.
pub fn load(rules: &str) -> Result<()> {
    run_with_input("nft", &["-f", "-"], rules).map(drop)
}

/// Checks rules in the kernel without loading them.
pub fn check(rules: &str) -> Result<()> {
    run_with_input("nft", &["-c", "-f", "-"], rules).map(drop)
}

/// A rule of a table.
#[derive(Debug, PartialEq)]
pub struct Rule {
    /// The packets that it has counted.
    pub packets: f64,
    pub drops: bool,
}

/// The rules of all chains of a table.
pub fn rules(table: &str) -> Result<Vec<Rule>> {
    parse(&run("nft", &["-j", "list", "table", "netdev", table])?)
}

fn parse(listing: &str) -> Result<Vec<Rule>> {
    let listing: Value = serde_json::from_str(listing).context("`nft -j list table`")?;
    let objects = listing["nftables"].as_array().into_iter().flatten();
    let rule = |object: &Value| {
        let expressions = object["rule"]["expr"].as_array()?;
        let find = |name: &str| expressions.iter().find(|part| part.get(name).is_some());
        let count = find("counter").and_then(|part| part["counter"]["packets"].as_f64());
        Some(Rule { packets: count.unwrap_or(0.0), drops: find("drop").is_some() })
    };
    Ok(objects.filter_map(rule).collect())
}

/// Refuses if there is a table of our prefix that no active fault accounts for.
pub fn refuse_foreign(prefix: &str) -> Result<(), Refusal> {
    let mut names = tables()?.into_iter();
    match names.find(|name| name.starts_with(prefix)) {
        None => Ok(()),
        Some(name) => Err(Refusal::Conflict(format!(
            "there is an nft table `netdev {name}` that no active fault of this agent made; \
             delete it first (nft delete table netdev {name})"
        ))),
    }
}

/// Deletes one of our tables, if it is there.
pub fn delete(table: &str) -> Result<()> {
    if tables()?.iter().any(|name| name == table) {
        run("nft", &["delete", "table", "netdev", table])?;
    }
    Ok(())
}

fn tables() -> Result<Vec<String>> {
    let text = run("nft", &["list", "tables", "netdev"])?;
    let names = text.lines();
    let names = names.filter_map(|line| line.strip_prefix("table netdev "));
    Ok(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_all_chains_are_read() {
        let chain = r#"{"rule":{"expr":[{"counter":{"packets":70,"bytes":1}}]}},
            {"rule":{"expr":[{"match":{}},{"counter":{"packets":7,"bytes":1}},{"drop":null}]}}"#;
        let listing = format!(r#"{{"nftables":[{{"metainfo":{{}}}},{chain},{chain}]}}"#);
        let rules = parse(&listing).unwrap();
        let counts = |drops| {
            let all = rules.iter().filter(|rule| rule.drops == drops);
            all.map(|rule| rule.packets).sum::<f64>()
        };
        assert_eq!((rules.len(), counts(false), counts(true)), (4, 140.0, 14.0));
        let empty = r#"{"nftables":[{"chain":{}}]}"#;
        assert_eq!(parse(empty).unwrap(), []);
        assert!(parse("").is_err());
    }
}
