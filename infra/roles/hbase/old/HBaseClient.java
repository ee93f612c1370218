import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HColumnDescriptor;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.HRegionInfo;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.HTableDescriptor;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.HBaseAdmin;
import org.apache.hadoop.hbase.client.HTable;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.filter.KeyOnlyFilter;
import org.apache.hadoop.hbase.regionserver.compactions.CompactionRequest.CompactionState;

/**
 * Rows of a table, by the client of HBase 0.94. A target is {@code ZOOKEEPERS}: rows are those of all regions in turn;
 * {@code ZOOKEEPERS SERVER}: of the regions that this region server has, or {@code any}; {@code ZOOKEEPERS SERVER TABLE}: of
 * another table. Operations are those of today's client; {@code put-heavy} has fewer rows under way, as a server has fewer
 * threads, and {@code flush} writes the catalogue's memory too: of what is in a log only, this release loses a part with its server.
 */
public final class HBaseClient implements Lanes.Opener {
  private static final String TABLE = "limplock";
  private static final byte[] FAMILY = {'f'};
  private static final byte[] NAME = {'v'};
  private static final int MANY = 100;
  private static final int HEAVY = 20; // puts under way at most: a server has 10 threads for what it is asked
  private static final int CELL_BYTES = 100_000; // in a store file
  private static final long POLL_MS = 100;

  @Override
  public Lanes.Client open(String target) throws Exception {
    return new Server(target.split(" "));
  }

  private static final class Server implements Lanes.Client {
    private final Configuration told = HBaseConfiguration.create();
    private final String server; // empty for any
    private final String name;
    private final Semaphore heavy = new Semaphore(HEAVY);
    private final ExecutorService atOnce = Executors.newCachedThreadPool();
    private volatile IOException failed; // a put that was under way
    private HTable table;
    private List<HRegionInfo> regions = Collections.emptyList(); // that are meant
    private ResultScanner scanned;

    Server(String[] target) {
      told.set("hbase.zookeeper.quorum", target[0]);
      told.set("hbase.client.instance.id", UUID.randomUUID().toString()); // a connection of its own
      server = target.length > 1 && !target[1].equals("any") ? target[1] : "";
      name = target.length > 2 ? target[2] : TABLE;
    }

    @Override
    public void connect() throws Exception {
      if (!server.isEmpty()) { // else there may be no table yet
        table().exists(new Get(row(0)));
      }
    }

    @Override
    public void ask(String operation, int key, int size) throws Exception {
      try {
        switch (operation) {
          case "put": table().put(put(key, size)); break;
          case "put-many": table().put(puts(key, MANY, size)); break;
          case "put-heavy": putHeavily(puts(key, MANY, size)); break;
          case "get":
          case "get-cached": get(key); break;
          case "scan": scan(key, size); break;
          default: administer(operation, key, size);
        }
      } catch (IOException error) {
        regions = Collections.emptyList(); // they may be elsewhere by now
        scanned = null;
        throw error;
      }
    }

    private void administer(String operation, int key, int size) throws Exception {
      HBaseAdmin admin = new HBaseAdmin(told);
      try {
        switch (operation) {
          case "table": makeTable(admin, size); break;
          case "spread": spread(admin); break;
          case "store": store(admin, key, size); break;
          case "flush": flush(admin); admin.flush(".META."); break;
          case "compact": compact(admin); break;
          default: throw new IllegalArgumentException("unknown operation " + operation);
        }
      } finally {
        admin.close();
      }
    }

    private HTable table() throws IOException {
      if (table == null) {
        table = new HTable(told, name);
      }
      return table;
    }

    private Put put(int key, int size) throws IOException {
      Put put = new Put(row(key));
      put.add(FAMILY, NAME, new byte[size]);
      return put;
    }

    private List<Put> puts(int key, int count, int size) throws IOException {
      List<Put> made = new ArrayList<>();
      for (int i = 0; i < count; i++) {
        made.add(put(key * count + i, size));
      }
      return made;
    }

    /** Each is a call of its own; returns when the last one is under way. */
    private void putHeavily(List<Put> puts) throws Exception {
      for (Put one : puts) {
        heavy.acquire();
        atOnce.execute(() -> {
          try (HTable own = new HTable(told, name)) {
            own.put(one);
          } catch (IOException error) {
            failed = error;
          } finally {
            heavy.release();
          }
        });
      }
      IOException before = failed;
      failed = null;
      if (before != null) {
        throw before;
      }
    }

    private void get(int key) throws IOException {
      if (table().get(new Get(row(key))).isEmpty()) {
        throw new IOException("expected a row of key " + key);
      }
    }

    /** The rows from {@code key} times {@code size} on; a scan goes on from one call to the next. */
    private void scan(int key, int size) throws IOException {
      if (scanned == null || key == 0) {
        Scan scan = new Scan(row(key * size));
        scan.setCaching(MANY);
        scanned = table().getScanner(scan);
      }
      for (int left = size; left > 0; left--) {
        if (scanned.next() == null) {
          throw new IOException("expected rows of keys from " + key * size + " on");
        }
      }
    }

    private void store(HBaseAdmin admin, int file, int size) throws Exception {
      if (file == 0) {
        empty(admin);
      }
      int cells = Math.max(1, size / CELL_BYTES);
      for (int key = file * cells; key < (file + 1) * cells; key++) {
        Put put = put(key, CELL_BYTES);
        put.setWriteToWAL(false); // it is flushed at once
        table().put(put);
      }
      flush(admin);
    }

    private void empty(HBaseAdmin admin) throws Exception {
      Scan scan = new Scan();
      scan.setFilter(new KeyOnlyFilter());
      scan.setCacheBlocks(false);
      List<Delete> all = new ArrayList<>();
      try (ResultScanner found = table().getScanner(scan)) {
        for (Result one : found) {
          all.add(new Delete(one.getRow()));
        }
      }
      table().delete(all);
      compact(admin);
    }

    private void flush(HBaseAdmin admin) throws Exception {
      for (HRegionInfo one : meant()) {
        admin.flush(one.getRegionName());
      }
    }

    private void compact(HBaseAdmin admin) throws Exception {
      flush(admin);
      for (HRegionInfo one : meant()) {
        admin.majorCompact(one.getRegionName());
      }
      for (HRegionInfo one : meant()) {
        while (admin.getCompactionState(one.getRegionName()) != CompactionState.NONE) {
          Thread.sleep(POLL_MS);
        }
      }
    }

    private byte[] row(int key) throws IOException {
      List<HRegionInfo> among = meant();
      byte[] start = among.get(key % among.size()).getStartKey();
      String first = start.length == 0 ? "a" : new String(start, StandardCharsets.US_ASCII);
      return (first + String.format("%08x", key / among.size())).getBytes(StandardCharsets.US_ASCII);
    }

    private List<HRegionInfo> meant() throws IOException {
      if (regions.isEmpty()) {
        regions = new ArrayList<>();
        for (Map.Entry<HRegionInfo, ServerName> one : table().getRegionLocations().entrySet()) {
          if (server.isEmpty() || one.getValue().getHostname().equals(server)) {
            regions.add(one.getKey());
          }
        }
      }
      if (regions.isEmpty()) {
        table().clearRegionCache();
        throw new IOException("expected a region of " + name + " on " + server);
      }
      return regions;
    }

    private void makeTable(HBaseAdmin admin, int count) throws IOException {
      List<byte[]> splits = new ArrayList<>();
      for (int i = 1; i < count; i++) {
        splits.add(new byte[] {(byte) ('a' + i)});
      }
      if (!admin.tableExists(name)) {
        HTableDescriptor made = new HTableDescriptor(name);
        made.addFamily(new HColumnDescriptor(FAMILY));
        admin.createTable(made, splits.toArray(new byte[0][]));
      }
    }

    /** Asks for what is elsewhere to be moved, and fails as long as anything was. */
    private void spread(HBaseAdmin admin) throws Exception {
      admin.balanceSwitch(false);
      List<ServerName> servers = new ArrayList<>(admin.getClusterStatus().getServers());
      servers.sort((one, other) -> one.getHostname().compareTo(other.getHostname()));
      ServerName last = servers.get(servers.size() - 1);
      int moved = place(admin, HRegionInfo.ROOT_REGIONINFO, holder(admin, HConstants.ROOT_TABLE_NAME), last)
          + place(admin, HRegionInfo.FIRST_META_REGIONINFO, holder(admin, HConstants.META_TABLE_NAME), last);
      for (HTableDescriptor one : admin.listTables()) {
        int next = 0;
        try (HTable of = new HTable(told, one.getName())) {
          for (Map.Entry<HRegionInfo, ServerName> at : of.getRegionLocations().entrySet()) {
            moved += place(admin, at.getKey(), at.getValue().getHostname(), servers.get(next++ % servers.size()));
          }
        }
      }
      if (moved > 0) {
        throw new IOException(moved + " regions are being moved");
      }
    }

    private static String holder(HBaseAdmin admin, byte[] catalogue) throws IOException {
      HRegionLocation found = admin.getConnection().relocateRegion(catalogue, HConstants.EMPTY_START_ROW);
      return found.getHostname();
    }

    private static int place(HBaseAdmin admin, HRegionInfo region, String holder, ServerName wanted) throws IOException {
      if (holder.equals(wanted.getHostname())) {
        return 0;
      }
      admin.move(region.getEncodedNameAsBytes(), wanted.getServerName().getBytes(StandardCharsets.US_ASCII));
      return 1;
    }

    @Override
    public void close() throws Exception {
      atOnce.shutdownNow();
      if (table != null) {
        table.close();
      }
    }
  }
}
