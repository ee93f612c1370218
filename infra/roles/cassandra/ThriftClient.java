import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeoutException;
import org.apache.cassandra.thrift.Cassandra;
import org.apache.cassandra.thrift.CfDef;
import org.apache.cassandra.thrift.Column;
import org.apache.cassandra.thrift.ColumnParent;
import org.apache.cassandra.thrift.ColumnPath;
import org.apache.cassandra.thrift.ConsistencyLevel;
import org.apache.cassandra.thrift.KsDef;
import org.apache.cassandra.thrift.NotFoundException;
import org.apache.cassandra.thrift.TimedOutException;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.transport.TFramedTransport;
import org.apache.thrift.transport.TSocket;
import org.apache.thrift.transport.TTransport;
import org.apache.thrift.transport.TTransportException;

/** By the Thrift client of the release of 2013, which has no speculative reads; the node that it connects to is the coordinator. */
public final class ThriftClient extends CassandraClient {
  private static final String TABLE = "pairs";
  private static final ByteBuffer COLUMN = bytes("value");
  private static final long AGREED_POLL_MS = 100;

  @Override
  List<Connection> connected(String host, int port, int several, String retry) throws TTransportException {
    List<Connection> all = new ArrayList<>();
    for (int place = 0; place < several; place++) {
      all.add(new Link(host, port));
    }
    return all;
  }

  private static ByteBuffer bytes(String text) {
    return ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
  }

  private static final class Link implements Connection {
    private final String host;
    private final int port;
    private volatile TTransport transport;
    private Cassandra.Client client;
    private boolean chosen; // its keyspace

    Link(String host, int port) throws TTransportException {
      this.host = host;
      this.port = port;
      connect();
    }

    private void connect() throws TTransportException {
      transport = new TFramedTransport(new TSocket(host, port));
      client = new Cassandra.Client(new TBinaryProtocol(transport));
      chosen = false;
      transport.open();
    }

    private interface Call<T> {
      T of(Cassandra.Client client) throws Exception;
    }

    /** What came of it; a connection that broke is made anew for the next. */
    private <T> T asked(Call<T> call) throws Exception {
      if (!transport.isOpen()) {
        connect();
      }
      try {
        return call.of(client);
      } catch (TTransportException error) {
        transport.close();
        throw error;
      } catch (TimedOutException error) {
        throw new TimeoutException("the coordinator waited in vain");
      }
    }

    @Override
    public void create() throws Exception {
      asked(client -> {
        try {
          client.describe_keyspace(KEYSPACE);
        } catch (NotFoundException none) {
          KsDef keyspace = new KsDef(KEYSPACE, "org.apache.cassandra.locator.SimpleStrategy",
              Collections.singletonList(new CfDef(KEYSPACE, TABLE)));
          keyspace.setStrategy_options(Collections.singletonMap("replication_factor", String.valueOf(REPLICAS)));
          client.system_add_keyspace(keyspace);
        }
        while (client.describe_schema_versions().size() > 1) {
          Thread.sleep(AGREED_POLL_MS);
        }
        return null;
      });
    }

    @Override
    public boolean get(String key, String consistency) throws Exception {
      return inKeyspace(client -> {
        try {
          client.get(bytes(key), new ColumnPath(TABLE).setColumn(COLUMN.duplicate()), level(consistency));
          return true;
        } catch (NotFoundException none) {
          return false;
        }
      });
    }

    @Override
    public void put(String key, byte[] value, String consistency) throws Exception {
      Column column = new Column(COLUMN.duplicate()).setValue(value).setTimestamp(1000 * System.currentTimeMillis());
      inKeyspace(client -> {
        client.insert(bytes(key), new ColumnParent(TABLE), column, level(consistency));
        return null;
      });
    }

    private <T> T inKeyspace(Call<T> call) throws Exception {
      return asked(client -> {
        if (!chosen) {
          client.set_keyspace(KEYSPACE);
          chosen = true;
        }
        return call.of(client);
      });
    }

    private static ConsistencyLevel level(String consistency) {
      return ConsistencyLevel.valueOf(consistency.toUpperCase(Locale.ROOT));
    }

    @Override
    public void close() {
      transport.close();
    }
  }
}
