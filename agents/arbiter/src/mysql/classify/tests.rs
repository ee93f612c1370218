use super::*;

fn all(class: &Class, statements: &[&str]) {
    for sql in statements {
        assert_eq!(classify(sql.as_bytes()), *class, "{sql}");
    }
}

#[test]
fn plain_reads_are_cloned() {
    all(
        &Class::Read,
        &[
            "SELECT 1",
            "select * from page where page_title = 'It\\'s; INTO @x' LIMIT 1;",
            "SELECT /* Wikimedia\\Rdbms\\Database::select */ a FROM b -- FOR UPDATE\n",
            "(SELECT 1) UNION ALL (SELECT 2)",
            "WITH x AS (SELECT 1) SELECT * FROM x",
            "SELECT `into`, \"FOR UPDATE\" FROM `lock`",
            "SELECT SUBSTRING('abc' FROM 1 FOR 2), @@version_comment",
            "SELECT a FROM t USE INDEX FOR ORDER BY (x) # GET_LOCK('a')",
            "SHOW TABLES",
            "SHOW GLOBAL STATUS LIKE 'a;b'",
            "SHOW MASTER STATUS",
            "SELECT /* small  */  /*! STRAIGHT_JOIN */ a FROM b /*!*/",
        ],
    );
}

#[test]
fn what_writes_locks_or_leaves_state_pins() {
    all(
        &Class::Pin,
        &[
            "SELECT a FROM t INTO @a FOR UPDATE",
            "CREATE TEMPORARY TABLE t (a INT)",
            "SELECT 1 INTO OUTFILE '/tmp/x'",
            "SELECT a INTO @a FROM t",
            "SELECT @a",
            "SELECT @`a`",
            "SELECT @a := 1",
            "SELECT NEXT VALUE FOR s",
            "SELECT SQL_CALC_FOUND_ROWS * FROM t",
            "SELECT LAST_INSERT_ID(5)",
            "SELECT 1; SELECT 2",
            "/*!40101 SET NAMES utf8 */",
            "SELECT 1 /*!50000 INTO OUTFILE 'x' */",
            "SELECT 1 /*M! FOR UPDATE */",
            "SELECT 'unterminated",
            "SELECT /* unterminated",
            "WITH x AS (SELECT 1) SELECT * INTO @a FROM x",
            "PREPARE s FROM 'SELECT 1'",
            "SET @a = (SELECT 1)",
            "SET @a = UUID()",
            "SET GLOBAL max_connections = 5",
            "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
            "SET SESSION sql_mode = 'ANSI'",
            "SET sql_mode = @mode",
            "SET `sql_mode` = @mode",
            "SELECT 1 /*! INTO OUTFILE 'x' */",
            "SELECT 1 /*! unterminated",
            "/*!99999 SELECT */ DELETE FROM t",
            "SELECT /*! /* nested */ INTO OUTFILE 'x' */ 1",
            "SET sql_mode = 4",
            "SET NAMES gbk",
            "set character set 'Big5'",
            "SET character_set_client = sjis",
            "SET character_set_client = 28",
            "SET character_set_client = @c",
            "SET NAMES 'cp932' COLLATE cp932_bin",
            "SET @now = CURRENT_TIMESTAMP",
            "USE `a``b`",
            "BEGIN NOT ATOMIC SELECT 1; END",
            "COMMIT RELEASE",
            "COMMIT AND NO CHAIN RELEASE",
            "START SLAVE",
            "",
        ],
    );
}

#[test]
fn reads_that_lock_until_their_transaction_ends_are_told() {
    all(
        &Class::LockingRead,
        &[
            "SELECT * FROM t FOR UPDATE",
            "SELECT LAST_INSERT_ID() FROM t FOR SHARE SKIP LOCKED",
            "(SELECT * FROM t LOCK IN SHARE MODE)",
        ],
    );
}

#[test]
fn locks_that_outlive_their_statement_are_told() {
    all(
        &Class::Lock,
        &[
            "SELECT GET_LOCK('a', 1)",
            "DO get_lock('a', 1)",
            "LOCK TABLES t READ",
            "lock table t write;",
            "FLUSH TABLES WITH READ LOCK",
            "HANDLER t OPEN",
            "SELECT 1; LOCK TABLES t WRITE",
        ],
    );
    all(&Class::Pin, &["UNLOCK TABLES", "SELECT 'GET_LOCK' INTO @a"]);
}

#[test]
fn reads_that_look_back_go_to_the_server_that_answered() {
    all(
        &Class::One,
        &[
            "SELECT FOUND_ROWS()",
            "SELECT ROW_COUNT()",
            "SHOW WARNINGS",
            "SHOW COUNT(*) ERRORS",
            "SELECT @@warning_count",
            "SELECT CONNECTION_ID()",
            "EXPLAIN SELECT 1",
        ],
    );
}

#[test]
fn what_an_insert_left_is_read_where_it_was() {
    all(
        &Class::InsertId,
        &[
            "SELECT LAST_INSERT_ID()",
            "SELECT ROW_COUNT(), LAST_INSERT_ID(), FOUND_ROWS()",
            "SELECT @@session.last_insert_id",
            "SELECT @@identity",
        ],
    );
}

#[test]
fn writes_are_told_and_those_that_leave_something_in_the_session() {
    all(
        &Class::Write(Left::Nothing),
        &[
            "INSERT INTO t VALUES (1)",
            "/* a */ update t set a = 'x;y' where b = 1;",
            "DELETE FROM t",
            "REPLACE INTO t VALUES (1)",
            "CREATE TABLE t (a INT)",
            "TRUNCATE t",
            "LOAD DATA INFILE 'x' INTO TABLE t",
            "WITH x AS (SELECT 1) DELETE FROM t",
        ],
    );
    all(
        &Class::Write(Left::State),
        &[
            "CALL p()",
            "INSERT INTO t SELECT @a := 1",
            "UPDATE t SET a = LAST_INSERT_ID(a + 1)",
            "SELECT 1; DELETE FROM t",
        ],
    );
}

#[test]
fn a_write_that_takes_locks_is_told() {
    all(
        &Class::Write(Left::Locks),
        &["INSERT INTO t VALUES (GET_LOCK('a', 1))", "LOCK TABLES t WRITE; DELETE FROM t"],
    );
}

#[test]
fn session_statements_go_to_every_server() {
    all(
        &Class::Session(Effect::Set),
        &[
            "SET NAMES 'utf8mb4'",
            "SET character_set_client = latin1, character_set_results = NULL",
            "SET group_concat_max_len = 262144, sql_mode = ''",
            "SET SESSION sql_mode = DEFAULT",
            "SET /* Wikimedia\\Rdbms\\Database::open  */ group_concat_max_len = 262144, `sql_mode` = ''",
            "SET SESSION sql_mode='TRADITIONAL'",
            "SET @a = 5",
            "set autocommit=0;",
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        ],
    );
    all(&Class::Session(Effect::Use(b"wi ki".to_vec())), &["USE `wi ki`"]);
    all(
        &Class::Session(Effect::Begin(Access::Any)),
        &[
            "BEGIN /* Wikimedia (WikiPage::pageData)  */ ",
            "begin work",
            "START TRANSACTION READ WRITE",
        ],
    );
    let begin = |access| Class::Session(Effect::Begin(access));
    all(&begin(Access::Read), &["/* f */ START TRANSACTION READ ONLY"]);
    all(&begin(Access::Snapshot), &["START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"]);
    all(
        &Class::Session(Effect::End),
        &[
            "COMMIT",
            "ROLLBACK",
            "ROLLBACK NO RELEASE",
            "COMMIT AND NO CHAIN",
            "COMMIT AND NO CHAIN NO RELEASE",
        ],
    );
    all(&Class::Session(Effect::Within), &["SAVEPOINT a", "ROLLBACK TO SAVEPOINT a"]);
    all(
        &Class::Session(Effect::Unrepeatable),
        &[
            "COMMIT AND CHAIN",
            "COMMIT AND CHAIN NO RELEASE",
            "ROLLBACK AND CHAIN NO RELEASE",
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
        ],
    );
}

#[test]
fn kill_is_refused() {
    assert!(matches!(classify(b"KILL QUERY 5"), Class::Refuse(_)));
}

#[test]
fn files_of_the_client_are_refused_and_those_of_the_server_are_not() {
    let refused = b"LOAD DATA LOW_PRIORITY LOCAL INFILE '/etc/passwd' INTO TABLE t";
    assert!(matches!(classify(refused), Class::Refuse(_)));
    let local = b"LOAD DATA INFILE '/tmp/local' INTO TABLE t";
    assert_eq!(classify(local), Class::Write(Left::Nothing));
}
