// An ordinary user of a current client of Java: CLIENT PORT READS. Prints the version of the client.
import io.lettuce.core.api.StatefulRedisConnection;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import redis.clients.jedis.Response;

final class Client {
  static void check(Object got, Object expected) {
    if (!expected.equals(got)) throw new AssertionError("expected " + expected + ", got " + got);
  }

  static Class<?> jedis(int port, int reads) {
    try (var client = redis.clients.jedis.RedisClient.create("127.0.0.1", port)) {
      client.set("key", "value");
      for (int number = 0; number < reads / 2; number++) {
        check(client.get("key"), "value");
        if (number % 10 != 0) continue;
        try (var transaction = client.multi()) {
          transaction.incr("number");
          check(transaction.exec().size(), 1);
        }
      }
      var replies = new ArrayList<Response<String>>();
      try (var pipeline = client.pipelined()) {
        for (int number = 0; number < reads / 2; number++) replies.add(pipeline.get("key"));
      }
      for (var reply : replies) check(reply.get(), "value");
    }
    return redis.clients.jedis.RedisClient.class;
  }

  static Class<?> lettuce(int port, int reads) {
    var client = io.lettuce.core.RedisClient.create("redis://127.0.0.1:" + port);
    try (StatefulRedisConnection<String, String> connection = client.connect()) {
      var redis = connection.sync();
      redis.set("key", "value");
      for (int number = 0; number < reads / 2; number++) {
        check(redis.get("key"), "value");
        if (number % 10 != 0) continue;
        redis.multi();
        redis.incr("number");
        check(redis.exec().size(), 1);
      }
      var replies = new ArrayList<io.lettuce.core.RedisFuture<String>>();
      for (int number = 0; number < reads / 2; number++) replies.add(connection.async().get("key"));
      for (var reply : replies) check(reply.toCompletableFuture().join(), "value");
    }
    client.shutdown();
    return io.lettuce.core.RedisClient.class;
  }

  static Class<?> connectorJ(int port, int reads) throws SQLException {
    for (boolean prepared : List.of(false, true)) {
      String url = "jdbc:mysql://127.0.0.1:" + port + "/wiki?sslMode=DISABLED&useServerPrepStmts=" + prepared;
      try (Connection connection = DriverManager.getConnection(url, "wiki", "wiki-read")) {
        for (int number = 0; number < reads / 2; number++) {
          check(title(connection), "Two");
          if (number % 10 == 0) write(connection);
        }
      }
    }
    return com.mysql.cj.jdbc.Driver.class;
  }

  static String title(Connection connection) throws SQLException {
    try (PreparedStatement select = connection.prepareStatement("SELECT title FROM page WHERE id = ?")) {
      select.setInt(1, 2);
      try (ResultSet rows = select.executeQuery()) {
        check(rows.next(), true);
        return rows.getString(1);
      }
    }
  }

  // A transaction that writes and reads what it wrote.
  static void write(Connection connection) throws SQLException {
    connection.setAutoCommit(false);
    try (PreparedStatement insert =
            connection.prepareStatement("INSERT INTO note (text) VALUES (?)", PreparedStatement.RETURN_GENERATED_KEYS);
        PreparedStatement select = connection.prepareStatement("SELECT text FROM note WHERE id = ?")) {
      insert.setString(1, "of Java");
      insert.executeUpdate();
      try (ResultSet keys = insert.getGeneratedKeys()) {
        check(keys.next(), true);
        select.setLong(1, keys.getLong(1));
      }
      try (ResultSet rows = select.executeQuery()) {
        check(rows.next(), true);
        check(rows.getString(1), "of Java");
      }
    }
    connection.commit();
    connection.setAutoCommit(true);
  }

  public static void main(String[] arguments) throws Exception {
    int port = Integer.parseInt(arguments[1]);
    int reads = Integer.parseInt(arguments[2]);
    Class<?> type =
        switch (arguments[0]) {
          case "Jedis" -> jedis(port, reads);
          case "Lettuce" -> lettuce(port, reads);
          case "Connector/J" -> connectorJ(port, reads);
          default -> throw new IllegalArgumentException(arguments[0]);
        };
    var jar = Path.of(type.getProtectionDomain().getCodeSource().getLocation().toURI()).getFileName();
    System.out.println(jar.toString().replaceAll("^[a-z-]*-(\\d.*)\\.jar$", "$1"));
  }
}
