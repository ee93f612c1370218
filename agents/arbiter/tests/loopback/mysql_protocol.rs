//! The MySQL arbiter and the less common parts of the protocol: both ways to prove a password,
//! large packets, prepared statements with cursors and long data, several results of one command.

use std::net::SocketAddr;
use std::process::{Command, Output};

use crate::support::mariadb::{code, connect, options, MariaDb};
use crate::support::{settings, start, Running};
use arbiter::mysql::handshake::{server_greeting, Key, LogIn};
use arbiter::mysql::packet::Packet;
use arbiter::mysql_auth::Method;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MIB: usize = 1 << 20;
const SHA2: &str = "mysql.auth_plugin = \"caching_sha2_password\"";

async fn front(replicas: usize, mysql: &str, servers: &[SocketAddr]) -> Running {
    start(&(settings("mysql", "tad", replicas, 8) + mysql), servers).await
}

#[tokio::test]
async fn a_password_is_proved_by_caching_sha2_where_the_greeting_says_so() {
    let server = MariaDb::start().await;
    let arbiter = front(1, SHA2, &[server.address]).await;
    let mut conn = connect(&arbiter).await;
    assert_eq!(conn.query_first("SELECT 5").await.unwrap(), Some(5));
    for password in ["wrong", "", "wiki-rea"] {
        let wrong = OptsBuilder::from_opts(options(arbiter.clients)).pass(Some(password));
        assert_eq!(code(&Conn::new(wrong).await.unwrap_err()), 1045, "{password}");
    }
}

async fn command_line(port: u16, plugin: &'static str, password: &'static str) -> Output {
    tokio::task::spawn_blocking(move || {
        Command::new("mariadb")
            .args(["--no-defaults", "-h127.0.0.1", "-uwiki", "-N", "wiki"])
            .args([format!("-P{port}"), format!("-p{password}")])
            .args([format!("--default-auth={plugin}")])
            .args(["-e", "SELECT title FROM page WHERE id = 2"])
            .output()
            .unwrap()
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn a_client_that_prefers_the_other_method_is_let_in_by_it() {
    let server = MariaDb::start().await;
    for setting in ["", SHA2] {
        let arbiter = front(1, setting, &[server.address]).await;
        let port = arbiter.clients.port();
        for plugin in ["mysql_native_password", "caching_sha2_password"] {
            let good = command_line(port, plugin, "wiki-read").await;
            let text = String::from_utf8_lossy(&good.stdout).into_owned();
            let error = String::from_utf8_lossy(&good.stderr).into_owned();
            assert_eq!(text, "Two\n", "{setting} {plugin}: {error}");
            let bad = command_line(port, plugin, "wrong").await;
            assert!(String::from_utf8_lossy(&bad.stderr).contains("1045"));
        }
    }
}

#[tokio::test]
async fn a_server_may_ask_for_caching_sha2() {
    let server = MariaDb::start().await;
    let inner = front(1, SHA2, &[server.address]).await;
    let outer = front(1, "", &[inner.clients]).await;
    let mut conn = connect(&outer).await;
    let port: Option<u16> = conn.query_first("SELECT @@port").await.unwrap();
    assert_eq!(port, Some(server.address.port()));
}

#[tokio::test]
async fn packets_above_16_mib_pass_both_ways_up_to_the_limit() {
    let servers = [MariaDb::start().await, MariaDb::start().await];
    let addresses = [servers[0].address, servers[1].address];
    for replicas in [1, 2] {
        let limit = format!("mysql.packet_bytes_max = {}", 40 * MIB);
        let arbiter = front(replicas, &limit, &addresses).await;
        let large =
            OptsBuilder::from_opts(options(arbiter.clients)).max_allowed_packet(Some(64 * MIB));
        let mut conn = Conn::new(large).await.unwrap();
        // Reads are cloned, and a row of two packets is followed to its end.
        let row: String =
            conn.query_first(format!("SELECT REPEAT('r', {})", 20 * MIB)).await.unwrap().unwrap();
        assert!(row.len() == 20 * MIB && row.bytes().all(|byte| byte == b'r'));
        for length in [16 * MIB - 18, 16 * MIB - 17, 33 * MIB] {
            let sql = format!("SELECT LENGTH('{}')", "x".repeat(length));
            let counted: Option<usize> = conn.query_first(sql).await.unwrap();
            assert_eq!(counted, Some(length), "r = {replicas}");
        }
        let beyond = conn.query_drop("x".repeat(41 * MIB)).await.unwrap_err();
        assert_eq!(code(&beyond), 1153, "{beyond}");
        assert!(beyond.to_string().contains("packet_bytes_max"), "{beyond}");
    }
}

/// A client that sends commands byte by byte as the test says.
pub(crate) struct Raw(TcpStream);

impl Raw {
    pub(crate) async fn log_in(address: SocketAddr) -> Self {
        let mut raw = Self(TcpStream::connect(address).await.unwrap());
        let greeting = server_greeting(&raw.packet().await).unwrap();
        let token = Method::Native.token(b"wiki-read", &greeting.nonce);
        let login = LogIn {
            key: Key::default(),
            user: b"wiki",
            method: Method::Native,
            token: &token,
            database: Some(b"wiki"),
            packet_bytes_max: 1 << 24,
        };
        raw.send(1, &login.payload()).await;
        assert_eq!(raw.packet().await[0], 0, "logged in");
        raw
    }

    async fn send(&mut self, sequence: u8, payload: &[u8]) {
        let packet = Packet::new(sequence, payload);
        self.0.write_all(packet.bytes()).await.unwrap();
    }

    async fn packet(&mut self) -> Vec<u8> {
        let length = self.0.read_u32_le().await.unwrap() & 0xff_ffff;
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).await.unwrap();
        payload
    }

    pub(crate) async fn ask(&mut self, command: u8, body: &[u8]) -> Vec<u8> {
        self.send(0, &[&[command], body].concat()).await;
        self.packet().await
    }

    /// Packets up to the next EOF, and that EOF's status.
    async fn until_eof(&mut self) -> (Vec<Vec<u8>>, u8) {
        let mut packets = vec![];
        loop {
            let packet = self.packet().await;
            if packet[0] == 0xfe && packet.len() < 9 {
                return (packets, packet[3]);
            }
            packets.push(packet);
        }
    }

    /// A statement's number, for one parameter and one column.
    async fn prepare(&mut self, sql: &str) -> [u8; 4] {
        let reply = self.ask(0x16, sql.as_bytes()).await;
        assert_eq!(reply[0], 0, "{sql}: {}", String::from_utf8_lossy(&reply));
        assert_eq!(&reply[5..9], [1, 0, 1, 0], "columns, parameters");
        self.until_eof().await;
        self.until_eof().await;
        reply[1..5].try_into().unwrap()
    }
}

const CURSOR_EXISTS: u8 = 0x40;
const LAST_ROW_SENT: u8 = 0x80;
const VAR_STRING: u8 = 0xfd;
const LONG: u8 = 3;

#[tokio::test]
async fn a_cursor_gives_its_rows_in_parts_and_is_closed_by_a_reset() {
    let servers = [MariaDb::start().await, MariaDb::start().await];
    let arbiter = front(2, "", &[servers[0].address, servers[1].address]).await;
    let mut raw = Raw::log_in(arbiter.clients).await;
    let id = raw.prepare("SELECT title FROM page WHERE id > ? ORDER BY id").await;
    // Read-only cursor, once, no nulls, new types: LONG, and the value 0.
    let execute = [&id[..], &[1, 1, 0, 0, 0, 0, 1, LONG, 0, 0, 0, 0, 0]].concat();
    for _ in 0..2 {
        assert_eq!(raw.ask(0x17, &execute).await, [1], "one column");
        let (_, status) = raw.until_eof().await;
        assert_eq!(status & CURSOR_EXISTS, CURSOR_EXISTS);
        let fetch = [&id[..], &2_u32.to_le_bytes()].concat();
        raw.send(0, &[&[0x1c], &fetch[..]].concat()).await;
        let (rows, status) = raw.until_eof().await;
        assert_eq!(rows, [b"\0\0\x03One", b"\0\0\x03Two"]);
        assert_eq!(status & LAST_ROW_SENT, 0);
        raw.send(0, &[&[0x1c], &fetch[..]].concat()).await;
        let (rows, status) = raw.until_eof().await;
        assert_eq!(rows, [b"\0\0\x05Three"]);
        assert_eq!(status & LAST_ROW_SENT, LAST_ROW_SENT);
        assert_eq!(raw.ask(0x1a, &id).await[0], 0, "COM_STMT_RESET");
    }
    let fetch = [&id[..], &2_u32.to_le_bytes()].concat();
    assert_eq!(raw.ask(0x1c, &fetch).await[0], 0xff, "no cursor any more");
    raw.send(0, &[&[0x19], &id[..]].concat()).await;
    assert_eq!(raw.ask(0x17, &execute).await[0], 0xff, "COM_STMT_CLOSE");
    assert_eq!(raw.ask(0x0e, b"").await[0], 0, "and the session goes on");
}

#[tokio::test]
async fn a_ping_says_the_session_s_status() {
    let servers = [MariaDb::start().await, MariaDb::start().await];
    for replicas in [1, 2] {
        let arbiter = front(replicas, "", &[servers[0].address, servers[1].address]).await;
        let mut raw = Raw::log_in(arbiter.clients).await;
        // In a transaction: 1. Autocommit: 2. That no index was used (32) is not the session's.
        for (sql, status) in [
            ("SET autocommit = 0", 0),
            ("BEGIN", 1),
            ("COMMIT", 0),
            ("SET autocommit = 1", 2),
            ("BEGIN", 3),
            ("SELECT * FROM page", 3),
            ("ROLLBACK", 2),
        ] {
            if raw.ask(0x03, sql.as_bytes()).await[0] != 0 {
                raw.until_eof().await;
                raw.until_eof().await;
            }
            let pong = raw.ask(0x0e, b"").await;
            assert_eq!(pong, [0, 0, 0, status, 0, 0, 0], "r = {replicas}: {sql}");
        }
    }
}

#[tokio::test]
async fn long_data_comes_in_pieces_without_replies() {
    let server = MariaDb::start().await;
    let arbiter = front(1, "", &[server.address]).await;
    let mut raw = Raw::log_in(arbiter.clients).await;
    let id = raw.prepare("SELECT MD5(?)").await;
    let piece = vec![b'a'; 300_000];
    for _ in 0..4 {
        let body = [&[0x18], &id[..], &[0, 0], &piece[..]].concat();
        raw.send(0, &body).await;
    }
    let execute = [&id[..], &[0, 1, 0, 0, 0, 0, 1, VAR_STRING, 0]].concat();
    assert_eq!(raw.ask(0x17, &execute).await, [1], "one column");
    raw.until_eof().await;
    let (rows, _) = raw.until_eof().await;
    let sql = format!("SELECT MD5('{}')", "a".repeat(1_200_000));
    let expected: Option<String> = server.direct().await.query_first(sql).await.unwrap();
    assert_eq!(&rows[0][3..], expected.unwrap().as_bytes());
}

#[tokio::test]
async fn a_procedure_s_results_come_one_after_the_other() {
    let servers = [MariaDb::start().await, MariaDb::start().await];
    for server in &servers {
        let run =
            "CREATE PROCEDURE wiki.three() BEGIN SELECT 1; SELECT title FROM page; SELECT 3; END";
        server.run(run).await;
    }
    for replicas in [1, 2] {
        let more = "mysql.primary = \"first\"\n";
        let arbiter = front(replicas, more, &servers.each_ref().map(|it| it.address)).await;
        let mut conn = connect(&arbiter).await;
        let mut results = conn.query_iter("CALL three()").await.unwrap();
        assert_eq!(results.collect::<u8>().await.unwrap(), [1]);
        let titles: Vec<String> = results.collect().await.unwrap();
        assert_eq!(titles, ["One", "Two", "Three"]);
        assert_eq!(results.collect::<u8>().await.unwrap(), [3]);
        drop(results);
        assert_eq!(conn.query_first("SELECT 4").await.unwrap(), Some(4));
        assert_eq!(arbiter.stats().await.requests.answered, 2);
    }
}

#[tokio::test]
async fn com_set_option_switches_several_statements_at_every_server() {
    let servers = [MariaDb::start().await, MariaDb::start().await];
    for replicas in [1, 2] {
        let arbiter = front(replicas, "", &[servers[0].address, servers[1].address]).await;
        let mut raw = Raw::log_in(arbiter.clients).await;
        assert_eq!(raw.ask(0x03, b"SELECT 1; SELECT 2").await[0], 0xff);
        assert_eq!(raw.ask(0x1b, &[0, 0]).await[0], 0xfe, "on");
        assert_eq!(raw.ask(0x03, b"SELECT 1; SELECT 2").await, [1]);
        for more in [8, 8, 0, 0] {
            let (_, status) = raw.until_eof().await;
            assert_eq!(status & 8, more, "more results follow");
        }
    }
}

#[tokio::test]
async fn a_server_s_wish_for_a_local_file_is_not_passed_on() {
    let server = MariaDb::start().await;
    let arbiter = front(1, "", &[server.address]).await;
    let mut conn = connect(&arbiter).await;
    // Not read by us as what it is: the server refuses, since the arbiter offered it nothing.
    let hidden = "/*!50000 LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE page */";
    let refused = conn.query_drop(hidden).await.unwrap_err();
    assert!([1148, 4166].contains(&code(&refused)), "{refused}");
    assert_eq!(conn.query_first("SELECT 4").await.unwrap(), Some(4));
}
