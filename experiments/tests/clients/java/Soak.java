// Checked requests of a current client of Java until standard input ends: CLIENT PORT. Writes a line for each
// reply: `right`, `error CAUSE` or `wrong DESCRIPTION`.
import io.lettuce.core.RedisConnectionException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import redis.clients.jedis.exceptions.JedisConnectionException;

final class Soak {
  static final int ACTS = 50; // of a session; those after the first 40 write
  static final int READS = 40;
  static final int PAUSE_MS = 100;
  static final int RETRY_MS = 500;
  static final int ROWS = 999; // shares no divisor with ACTS, so that rows that were written are read later

  interface Session extends AutoCloseable {
    void read(int number) throws Exception;

    void write(int number) throws Exception;

    // True if it goes on after an error.
    boolean lasts();
  }

  static void writeLine(String line) {
    String text = line.replaceAll("\\s+", " ");
    System.out.println(text.substring(0, Math.min(300, text.length())));
  }

  // The text that belongs to a name and a number.
  static String text(String name, int number) throws Exception {
    String key = name + "=" + number;
    byte[] digest = MessageDigest.getInstance("MD5").digest(key.getBytes(StandardCharsets.UTF_8));
    return key + "=" + HexFormat.of().formatHex(digest).repeat(1 + number % 64);
  }

  static void check(String request, Object reply, Object... expected) {
    writeLine(Arrays.asList(expected).contains(reply) ? "right" : "wrong " + request + ": " + reply);
  }

  static final class Jedis implements Session {
    private final redis.clients.jedis.RedisClient client;

    Jedis(int port) {
      client = redis.clients.jedis.RedisClient.create("127.0.0.1", port);
    }

    public void read(int number) throws Exception {
      check("GET", client.get("Jedis:" + number), text("Jedis", number), null);
    }

    public void write(int number) throws Exception {
      int row = number % ROWS;
      check("SET", client.set("Jedis:" + row, text("Jedis", row)), "OK");
      try (var transaction = client.multi()) {
        transaction.set("Jedis", text("write", number));
        var value = transaction.get("Jedis");
        transaction.exec();
        check("EXEC", value.get(), text("write", number));
      }
    }

    public boolean lasts() {
      return true;
    }

    public void close() {
      client.close();
    }
  }

  static final class Lettuce implements Session {
    private final io.lettuce.core.RedisClient client;
    private final io.lettuce.core.api.sync.RedisCommands<String, String> redis;

    Lettuce(int port) {
      client = io.lettuce.core.RedisClient.create("redis://127.0.0.1:" + port);
      try {
        redis = client.connect().sync();
      } catch (RuntimeException error) {
        client.shutdown();
        throw error;
      }
    }

    public void read(int number) throws Exception {
      check("GET", redis.get("Lettuce:" + number), text("Lettuce", number), null);
    }

    public void write(int number) throws Exception {
      int row = number % ROWS;
      check("SET", redis.set("Lettuce:" + row, text("Lettuce", row)), "OK");
      redis.multi();
      try {
        redis.set("Lettuce", text("write", number));
        redis.get("Lettuce");
        check("EXEC", redis.exec().stream().toList(), List.of("OK", text("write", number)));
      } catch (RuntimeException error) {
        redis.discard(); // its connection would take later commands for the transaction's
        throw error;
      }
    }

    public boolean lasts() {
      return true;
    }

    public void close() {
      client.shutdown();
    }
  }

  static final class ConnectorJ implements Session {
    private final Connection connection;

    ConnectorJ(int port, boolean prepared) throws SQLException {
      String url = "jdbc:mysql://127.0.0.1:" + port + "/wiki?sslMode=DISABLED&useServerPrepStmts=" + prepared;
      connection = DriverManager.getConnection(url, "wiki", "wiki-read");
    }

    private String first(String query, int number) throws SQLException {
      try (PreparedStatement select = connection.prepareStatement(query)) {
        select.setInt(1, number);
        try (ResultSet rows = select.executeQuery()) {
          return rows.next() ? rows.getString(1) : null;
        }
      }
    }

    public void read(int number) throws Exception {
      check("SELECT", first("SELECT text FROM article WHERE id = ?", number), text("article", number));
    }

    public void write(int number) throws Exception {
      String proposal = text("Connector/J", number);
      String query = "SELECT text FROM proposal WHERE client = 'Connector/J' AND id = ?";
      connection.setAutoCommit(false);
      try (PreparedStatement insert = connection.prepareStatement("INSERT INTO proposal VALUES ('Connector/J', ?, ?)")) {
        insert.setInt(1, number);
        insert.setString(2, proposal);
        check("INSERT", insert.executeUpdate(), 1);
      }
      check("SELECT after INSERT", first(query, number), proposal);
      connection.rollback();
      connection.setAutoCommit(true);
      check("SELECT after ROLLBACK", first(query, number), (Object) null);
    }

    public boolean lasts() {
      return false;
    }

    public void close() throws SQLException {
      connection.close();
    }
  }

  static Session connect(String client, int port, int first) throws Exception {
    return switch (client) {
      case "Jedis" -> new Jedis(port);
      case "Lettuce" -> new Lettuce(port);
      case "Connector/J" -> new ConnectorJ(port, first / ACTS % 2 == 0);
      default -> throw new IllegalArgumentException(client);
    };
  }

  static String cause(Throwable error) {
    if (error instanceof SQLException sql) {
      if (sql.getErrorCode() >= 1000) return "MySQL error " + sql.getErrorCode();
      if (("" + sql.getSQLState()).startsWith("08")) return "connection: " + sql.getClass().getSimpleName();
    }
    if (error instanceof JedisConnectionException || error instanceof RedisConnectionException)
      return "connection: " + error.getClass().getSimpleName();
    if (("" + error.getMessage()).startsWith("Connection closed")) return "connection: " + error.getMessage(); // of Lettuce
    if (error.getCause() instanceof IOException) return "connection: " + error.getCause().getMessage();
    return "" + error.getMessage();
  }

  static void fail(Exception error) throws InterruptedException {
    writeLine("error " + cause(error));
    Thread.sleep(RETRY_MS);
  }

  static void act(Session session, int first) throws Exception {
    for (int number = first; number < first + ACTS; number++) {
      Thread.sleep(PAUSE_MS);
      try {
        if (number - first < READS) session.read(number % ROWS);
        else session.write(number);
      } catch (Exception error) {
        if (!session.lasts()) throw error;
        fail(error);
      }
    }
  }

  static void endWithInput() {
    try {
      System.in.transferTo(OutputStream.nullOutputStream());
    } catch (IOException error) {
      // It ended.
    }
    Runtime.getRuntime().halt(0);
  }

  public static void main(String[] arguments) throws Exception {
    var input = new Thread(Soak::endWithInput);
    input.setDaemon(true);
    input.start();
    for (int first = 0; ; first += ACTS) {
      try (Session session = connect(arguments[0], Integer.parseInt(arguments[1]), first)) {
        act(session, first);
      } catch (Exception error) {
        fail(error);
      }
    }
  }
}
