//! Files that are read, and files that are refused.

use super::*;

const GOOD: &str = r#"
protocol = "http"
listen = "127.0.0.1:8080"
admin = "127.0.0.1:9300"
tier = "web"
policy = "tad"
replicas = 2
tokens = 1
[[servers]]
name = "web-1"
address = "127.0.0.1:81"
[[servers]]
name = "web-2"
address = "127.0.0.1:82"
"#;

fn refusal(text: &str) -> String {
    Config::parse(text, "a.toml").unwrap_err().to_string()
}

#[test]
fn a_good_file_is_read_with_defaults() {
    let config = Config::parse(GOOD, "a.toml").unwrap();
    assert_eq!(config.policy.name(), "tad");
    assert_eq!(config.request_timeout_ms, 6_000);
    assert_eq!(config.idle_timeout_ms, 3_600_000);
    assert_eq!(config.servers[1].address.to_string(), "127.0.0.1:82");
}

#[test]
fn unknown_keys_are_refused_with_their_line() {
    let text = refusal(&GOOD.replace("tier =", "teir ="));
    assert!(text.contains("line 5") && text.contains("teir"), "{text}");
    let text = refusal(&format!("{GOOD}weight = 3\n"));
    assert!(text.contains("weight"), "{text}");
}

#[test]
fn impossible_values_are_refused_with_what_was_expected_and_got() {
    #[rustfmt::skip] // a table
    let table = [
        ("replicas = 2", "replicas = 3", "replicas: expected 1 to 2, the number of servers (got 3)"),
        ("replicas = 2", "replicas = 0", "replicas: expected 1 to 2"),
        ("tokens = 1", "threads = 0\ntokens = 1", "threads: expected 1 to 64 (got 0)"),
        ("tokens = 1", "client_kib_per_s_min = 0\ntokens = 1", "client_kib_per_s_min: expected 1 to 1048576 KiB/s (got 0)"),
        ("tokens = 1", "streaming_ms_max = 0\ntokens = 1", "streaming_ms_max: expected 1 to 3600000 ms (got 0)"),
        ("tokens = 1", "idle_timeout_ms = 0\ntokens = 1", "idle_timeout_ms: expected 1 to 604800000 ms (got 0)"),
        ("tokens = 1", "tokens = 0", "tokens: expected 1 to 1000 (got 0)"),
        ("tokens = 1", "tokens = 1\nserver_cores = 0", "server_cores: expected above 0 to 4096 (got 0)"),
        ("tokens = 1", "tokens = 1\ntrace = \"\"", "trace: expected the path of a file (got \"\")"),
        ("tokens = 1", "tokens = 1\ntrace_lines_max = 0", "trace_lines_max: expected 1 to 1000000000 (got 0)"),
        ("replicas = 2", "replicas = 1\ncompare.mode = \"count\"", "compare.mode: expected \"off\" (with one replica"),
        ("tokens = 1", "tokens = 1\ncompare.bytes_max = 0", "compare.bytes_max: expected 1 to 67108864 bytes (got 0)"),
        ("tokens = 1", "tokens = 1\ncompare.mod = \"count\"", "unknown field `mod`"),
        ("\"web-2\"", "\"web-1\"", "servers[1].name: expected a name that no other server has"),
        ("\"web-2\"", "\"web\\r\\n2\"", "servers[1].name: expected a name of letters"),
        (":82", ":81", "servers[1].address: expected an address that no other"),
        ("tokens = 1", "tokens = 1\npinned_idle_ms = 0", "pinned_idle_ms: expected 1 to 86400000 ms (got 0)"),
        ("tokens = 1", "tokens = 1\npinned_per_address_max = 0", "pinned_per_address_max: expected 1 to"),
        ("\"http\"", "\"mysql\"", "mysql: expected a [mysql] table"),
        ("\"http\"", "\"tcp\"", "replicas: expected 1"),
        ("tokens = 1", "tokens = 1\nredis = { read_your_writes = true }", "redis: expected no [redis] table"),
        ("\"http\"", "\"redis\"\nredis = { primary = \"detected\", read_your_writes = true }", "redis.read_your_writes: expected false"),
        ("\"http\"", "\"redis\"\nredis = { primary = \"second\" }", "unknown variant `second`"),
    ];
    for (old, new, expected) in table {
        let text = refusal(&GOOD.replace(old, new));
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn debug_output_has_no_password() {
    let mysql = Mysql {
        primary: None,
        reads_after_write: Default::default(),
        user: "wiki".into(),
        password: "wiki-read".into(),
        database: "wiki".into(),
        auth_plugin: Method::Native,
        packet_bytes_max: 1 << 20,
    };
    assert!(!format!("{mysql:?}").contains("wiki-read"));
}
