import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.CompactionState;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.RegionLocator;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;

/**
 * Rows of one table, by today's HBase client. A target is {@code ZOOKEEPERS}: rows are those of all regions in turn; or
 * {@code ZOOKEEPERS SERVER}: of the regions that this region server has. The table has {@code size} regions when it is made.
 */
public final class HBaseClient implements Lanes.Opener {
  private static final TableName TABLE = TableName.valueOf("limplock");
  private static final byte[] FAMILY = {'f'};
  private static final byte[] NAME = {'v'};
  private static final long POLL_MS = 200;

  @Override
  public Lanes.Client open(String target) throws Exception {
    return new Server(target.split(" "));
  }

  private static final class Server implements Lanes.Client {
    private final Connection connection;
    private final String server; // empty for any
    private List<String> starts = List.of(); // of the regions that are meant

    Server(String[] target) throws Exception {
      Configuration told = HBaseConfiguration.create();
      told.set("hbase.zookeeper.quorum", target[0]);
      connection = ConnectionFactory.createConnection(told);
      server = target.length > 1 ? target[1] : "";
    }

    @Override
    public void ask(String operation, int key, int size) throws Exception {
      try (Admin admin = connection.getAdmin(); Table table = connection.getTable(TABLE)) {
        if (operation.equals("table")) {
          makeTable(admin, size);
          return;
        }
        try {
          ask(operation, key, size, admin, table);
        } catch (IOException error) {
          starts = List.of(); // they may be elsewhere by now
          throw error;
        }
      }
    }

    private void ask(String operation, int key, int size, Admin admin, Table table) throws Exception {
      switch (operation) {
        case "put": table.put(new Put(row(key)).addColumn(FAMILY, NAME, new byte[size])); break;
        case "get":
          if (table.get(new Get(row(key))).isEmpty()) {
            throw new IOException("expected a row of key " + key);
          }
          break;
        case "scan": scan(table, size); break;
        case "compact": compact(admin); break;
        default: throw new IllegalArgumentException("table, put, get, scan or compact, not " + operation);
      }
    }

    private void scan(Table table, int rows) throws Exception {
      int left = rows;
      try (ResultScanner found = table.getScanner(new Scan().withStartRow(row(0)))) {
        while (left > 0 && found.next() != null) {
          left--;
        }
      }
    }

    private void compact(Admin admin) throws Exception {
      admin.flush(TABLE);
      admin.majorCompact(TABLE);
      while (admin.getCompactionState(TABLE) != CompactionState.NONE) {
        Thread.sleep(POLL_MS);
      }
    }

    private byte[] row(int key) throws IOException {
      if (starts.isEmpty()) {
        starts = regions();
      }
      String row = starts.get(key % starts.size()) + String.format("%08x", key / starts.size());
      return row.getBytes(StandardCharsets.US_ASCII);
    }

    private List<String> regions() throws IOException {
      List<String> found = new ArrayList<>();
      try (RegionLocator locator = connection.getRegionLocator(TABLE)) {
        for (HRegionLocation one : locator.getAllRegionLocations()) {
          if (server.isEmpty() || one.getHostname().equals(server)) {
            found.add(firstRow(one.getRegion().getStartKey()));
          }
        }
      }
      if (found.isEmpty()) {
        connection.clearRegionLocationCache();
        throw new IOException("expected a region on " + server);
      }
      return found;
    }

    private static String firstRow(byte[] start) {
      return start.length == 0 ? "a" : new String(start, StandardCharsets.US_ASCII);
    }

    private static void makeTable(Admin admin, int regions) throws IOException {
      List<byte[]> splits = new ArrayList<>();
      for (int i = 1; i < regions; i++) {
        splits.add(new byte[] {(byte) ('a' + i)});
      }
      if (!admin.tableExists(TABLE)) {
        admin.createTable(
            TableDescriptorBuilder.newBuilder(TABLE).setColumnFamily(ColumnFamilyDescriptorBuilder.of(FAMILY)).build(),
            splits.toArray(new byte[0][]));
      }
    }

    @Override
    public void close() throws Exception {
      connection.close();
    }
  }
}
