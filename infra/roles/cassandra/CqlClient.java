import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.PreparedStatement;
import com.datastax.driver.core.QueryOptions;
import com.datastax.driver.core.ResultSet;
import com.datastax.driver.core.Session;
import com.datastax.driver.core.exceptions.OperationTimedOutException;
import com.datastax.driver.core.exceptions.ReadTimeoutException;
import com.datastax.driver.core.exceptions.WriteTimeoutException;
import com.datastax.driver.core.policies.ConstantReconnectionPolicy;
import com.datastax.driver.core.policies.RoundRobinPolicy;
import com.datastax.driver.core.policies.WhiteListPolicy;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeoutException;

/** By the driver that is among today's release, for its own tools; one node is the coordinator of all that it asks. */
public final class CqlClient extends CassandraClient {
  private static final long AGAIN_MS = 500; // to a node that is back

  @Override
  List<Connection> connected(String host, int port, int several, String retry) {
    return Collections.nCopies(several, new Driver(new InetSocketAddress(host, port), retry));
  }

  private static final class Driver implements Connection {
    private final Cluster cluster;
    private final Session session;
    private final String retry;
    private final String table;
    private final Map<String, PreparedStatement> prepared = new ConcurrentHashMap<>();

    Driver(InetSocketAddress node, String retry) {
      this.retry = retry;
      table = KEYSPACE + ".pairs_" + retry.toLowerCase(Locale.ROOT);
      List<InetSocketAddress> only = Collections.singletonList(node);
      cluster = Cluster.builder()
          .addContactPointsWithPorts(only)
          .withLoadBalancingPolicy(new WhiteListPolicy(new RoundRobinPolicy(), only))
          .withReconnectionPolicy(new ConstantReconnectionPolicy(AGAIN_MS))
          .withQueryOptions(new QueryOptions().setMetadataEnabled(false)) // else a slow card carries the schema first
          .withoutMetrics()
          .build();
      try {
        session = cluster.connect();
      } catch (RuntimeException error) {
        cluster.close();
        throw error;
      }
    }

    @Override
    public void create() {
      session.execute("CREATE KEYSPACE IF NOT EXISTS " + KEYSPACE + " WITH replication ="
          + " {'class': 'SimpleStrategy', 'replication_factor': " + REPLICAS + "}");
      session.execute("CREATE TABLE IF NOT EXISTS " + table + " (key text PRIMARY KEY, value blob)"
          + " WITH speculative_retry = '" + retry + "'");
    }

    @Override
    public boolean get(String key, String consistency) throws TimeoutException {
      return asked("SELECT value FROM " + table + " WHERE key = ?", consistency, key).one() != null;
    }

    @Override
    public void put(String key, byte[] value, String consistency) throws TimeoutException {
      asked("INSERT INTO " + table + " (key, value) VALUES (?, ?)", consistency, key, ByteBuffer.wrap(value));
    }

    private ResultSet asked(String query, String consistency, Object... values) throws TimeoutException {
      PreparedStatement statement = prepared.computeIfAbsent(query, session::prepare);
      ConsistencyLevel level = ConsistencyLevel.valueOf(consistency.toUpperCase(Locale.ROOT));
      try {
        return session.execute(statement.bind(values).setConsistencyLevel(level));
      } catch (ReadTimeoutException | WriteTimeoutException | OperationTimedOutException error) {
        throw new TimeoutException(error.getMessage());
      }
    }

    @Override
    public void close() {
      cluster.close();
    }
  }
}
