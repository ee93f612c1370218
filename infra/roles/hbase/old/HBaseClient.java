import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HColumnDescriptor;
import org.apache.hadoop.hbase.HRegionInfo;
import org.apache.hadoop.hbase.HTableDescriptor;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.HBaseAdmin;
import org.apache.hadoop.hbase.client.HTable;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.regionserver.compactions.CompactionRequest.CompactionState;

/**
 * Rows of one table, by the client of HBase 0.94. A target is {@code ZOOKEEPERS}: rows are those of all regions in turn; or
 * {@code ZOOKEEPERS SERVER}: of the regions that this region server has. The table has {@code size} regions when it is made.
 */
public final class HBaseClient implements Lanes.Opener {
  private static final String TABLE = "limplock";
  private static final byte[] FAMILY = {'f'};
  private static final byte[] NAME = {'v'};
  private static final long POLL_MS = 200;

  @Override
  public Lanes.Client open(String target) throws Exception {
    return new Server(target.split(" "));
  }

  private static final class Server implements Lanes.Client {
    private final Configuration told = HBaseConfiguration.create();
    private final String server; // empty for any
    private HTable table;
    private List<String> starts = List.of(); // of the regions that are meant

    Server(String[] target) {
      told.set("hbase.zookeeper.quorum", target[0]);
      server = target.length > 1 ? target[1] : "";
    }

    @Override
    public void ask(String operation, int key, int size) throws Exception {
      if (operation.equals("table")) {
        makeTable(size);
        return;
      }
      if (table == null) {
        table = new HTable(told, TABLE);
      }
      try {
        switch (operation) {
          case "put":
            Put put = new Put(row(key));
            put.add(FAMILY, NAME, new byte[size]);
            table.put(put);
            break;
          case "get":
            if (table.get(new Get(row(key))).isEmpty()) {
              throw new IOException("expected a row of key " + key);
            }
            break;
          case "scan": scan(size); break;
          case "compact": compact(); break;
          case "flush": flush(); break;
          default: throw new IllegalArgumentException("table, put, get, scan, compact or flush, not " + operation);
        }
      } catch (IOException error) {
        starts = List.of(); // they may be elsewhere by now
        throw error;
      }
    }

    private void scan(int rows) throws Exception {
      int left = rows;
      Scan scan = new Scan(row(0));
      scan.setCaching(100);
      ResultScanner found = table.getScanner(scan);
      while (left > 0 && found.next() != null) {
        left--;
      }
      found.close();
    }

    private void compact() throws Exception {
      HBaseAdmin admin = new HBaseAdmin(told);
      try {
        admin.flush(TABLE);
        admin.majorCompact(TABLE);
        while (admin.getCompactionState(TABLE) != CompactionState.NONE) {
          Thread.sleep(POLL_MS);
        }
      } finally {
        admin.close();
      }
    }

    /** The table and the one that knows its regions: of what is in a log only, this release loses a part with its server. */
    private void flush() throws Exception {
      HBaseAdmin admin = new HBaseAdmin(told);
      try {
        admin.flush(TABLE);
        admin.flush(".META.");
      } finally {
        admin.close();
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
      for (Map.Entry<HRegionInfo, ServerName> one : table.getRegionLocations().entrySet()) {
        if (server.isEmpty() || one.getValue().getHostname().equals(server)) {
          found.add(firstRow(one.getKey().getStartKey()));
        }
      }
      if (found.isEmpty()) {
        table.clearRegionCache();
        throw new IOException("expected a region on " + server);
      }
      return found;
    }

    private static String firstRow(byte[] start) {
      return start.length == 0 ? "a" : new String(start, StandardCharsets.US_ASCII);
    }

    private void makeTable(int regions) throws Exception {
      List<byte[]> splits = new ArrayList<>();
      for (int i = 1; i < regions; i++) {
        splits.add(new byte[] {(byte) ('a' + i)});
      }
      HBaseAdmin admin = new HBaseAdmin(told);
      try {
        if (!admin.tableExists(TABLE)) {
          HTableDescriptor made = new HTableDescriptor(TABLE);
          made.addFamily(new HColumnDescriptor(FAMILY));
          admin.createTable(made, splits.toArray(new byte[0][]));
        }
      } finally {
        admin.close();
      }
    }

    @Override
    public void close() throws Exception {
      if (table != null) {
        table.close();
      }
    }
  }
}
