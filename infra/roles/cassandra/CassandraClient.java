import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeoutException;

/**
 * Gets and puts rows by way of one node, whichever client of a generation asks it.
 *
 * <p>A target is {@code HOST PORT AT_ONCE SPECULATIVE_RETRY}: so many rows are asked for together, and an operation is over with the
 * last of them; each setting of a table has a table of its own.
 * Operations are {@code create} (keyspace and table), and {@code get}, {@code put} and {@code fill} with a consistency: {@code get-quorum}.
 * What is got was filled in, and is never put: a replica that missed a put has no say in a get.
 */
public abstract class CassandraClient implements Lanes.Opener {
  static final String KEYSPACE = "limplock";
  static final int REPLICAS = 3; // Limplock section 5.4

  /** A connection to a node; throws TimeoutException where replicas did not answer that in time. */
  interface Connection extends AutoCloseable {
    void create() throws Exception;

    /** Whether the row is there. */
    boolean get(String key, String consistency) throws Exception;

    void put(String key, byte[] value, String consistency) throws Exception;
  }

  /** So many connections, each for one thread at a time; one may be several of them. */
  abstract List<? extends Connection> connected(String host, int port, int several, String retry) throws Exception;

  @Override
  public Lanes.Client open(String target) throws Exception {
    String[] words = target.split(" ");
    return new Together(connected(words[0], Integer.parseInt(words[1]), Integer.parseInt(words[2]), words[3]));
  }

  private static final class Together implements Lanes.Client {
    private final List<? extends Connection> connections;
    private final ExecutorService doers = Executors.newCachedThreadPool(task -> {
      Thread thread = new Thread(task, "one of several");
      thread.setDaemon(true);
      return thread;
    });

    Together(List<? extends Connection> connections) {
      this.connections = connections;
    }

    @Override
    public void ask(String operation, int key, int size) throws Exception {
      int several = connections.size();
      if (several == 1) {
        one(connections.get(0), operation, key, size);
        return;
      }
      List<Future<?>> asked = new ArrayList<>();
      for (int place = 0; place < several; place++) {
        Connection connection = connections.get(place);
        int mine = key * several + place;
        asked.add(doers.submit(() -> {
          one(connection, operation, mine, size);
          return null;
        }));
      }
      for (Future<?> each : asked) {
        over(each);
      }
    }

    private static void over(Future<?> asked) throws Exception {
      try {
        asked.get();
      } catch (ExecutionException error) {
        throw error.getCause() instanceof TimeoutException ? (TimeoutException) error.getCause() : error;
      }
    }

    private static void one(Connection connection, String operation, int key, int size) throws Exception {
      String[] words = operation.split("-");
      switch (words[0]) {
        case "create": connection.create(); break;
        case "fill": connection.put("filled-" + key, new byte[size], words[1]); break;
        case "put": connection.put("put-" + key, new byte[size], words[1]); break;
        case "get":
          if (!connection.get("filled-" + key, words[1])) {
            throw new IllegalStateException("no row filled-" + key);
          }
          break;
        default: throw new IllegalArgumentException("create, fill, put or get, not " + operation);
      }
    }

    @Override
    public void close() throws Exception {
      doers.shutdownNow();
      for (Connection connection : connections) {
        connection.close();
      }
    }
  }
}
