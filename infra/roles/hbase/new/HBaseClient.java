import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.Semaphore;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.AsyncConnection;
import org.apache.hadoop.hbase.client.AsyncTable;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptor;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.CompactionState;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Consistency;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Durability;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.RegionLocator;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.filter.KeyOnlyFilter;

/**
 * Rows of a table, by today's HBase client. A target is {@code ZOOKEEPERS}: rows are those of all regions in turn;
 * {@code ZOOKEEPERS SERVER}: of the regions that this region server has, or {@code any}; {@code ZOOKEEPERS SERVER TABLE}: of
 * another table; {@code ZOOKEEPERS SERVER TABLE COPIES}: of one whose regions so many servers have, where gets are of any copy;
 * {@code ZOOKEEPERS SERVER TABLE COPIES PUTS}: of heavy puts so many are under way at most.
 *
 * <p>{@code table} makes it with {@code size} regions, and {@code spread} gives every server one region of each table and the last
 * one the catalogue; {@code put}, {@code get} and {@code get-cached} are of one row, {@code put-many} is of a hundred in one call,
 * {@code put-heavy} of a hundred, each under way by itself, {@code scan} reads the next {@code size} rows; {@code store}
 * writes a store file of {@code size} bytes, the first where none was; {@code flush} writes what is in memory, and {@code compact}
 * that and all files into one.
 */
public final class HBaseClient implements Lanes.Opener {
  private static final String TABLE = "limplock";
  private static final byte[] FAMILY = {'f'};
  private static final byte[] NAME = {'v'};
  private static final int MANY = 100;
  private static final int HEAVY = 60; // puts under way at most, unless told: a server has 30 threads for what it is asked
  private static final int CELL_BYTES = 100_000; // in a store file
  private static final int FILES_MAX = 12; // before a server compacts by itself: nobody asked for that
  private static final int ASK_COPY_US = 1000; // the release waits 10 ms: a get by a card 100 times slower takes 3
  private static final long POLL_MS = 100;

  @Override
  public Lanes.Client open(String target) throws Exception {
    return new Server(target.split(" "));
  }

  private static final class Server implements Lanes.Client {
    private final Connection connection;
    private final Semaphore heavy;
    private volatile Throwable failed; // a put that was under way
    private AsyncConnection atOnce; // where several puts are
    private final String server; // empty for any
    private final TableName name;
    private final int copies; // of each region
    private List<HRegionLocation> regions = List.of(); // that are meant
    private ResultScanner scanned;

    Server(String[] target) throws Exception {
      Configuration told = HBaseConfiguration.create();
      told.set("hbase.zookeeper.quorum", target[0]);
      told.setInt("hbase.client.primaryCallTimeout.get", ASK_COPY_US);
      connection = ConnectionFactory.createConnection(told);
      server = target.length > 1 && !target[1].equals("any") ? target[1] : "";
      name = TableName.valueOf(target.length > 2 ? target[2] : TABLE);
      copies = target.length > 3 ? Integer.parseInt(target[3]) : 1;
      heavy = new Semaphore(target.length > 4 ? Integer.parseInt(target[4]) : HEAVY);
    }

    @Override
    public void connect() throws Exception {
      if (!server.isEmpty()) { // else there may be no table yet
        try (Table table = connection.getTable(name)) {
          table.exists(new Get(row(0)));
        }
      }
    }

    @Override
    public void ask(String operation, int key, int size) throws Exception {
      try (Admin admin = connection.getAdmin(); Table table = connection.getTable(name)) {
        switch (operation) {
          case "table": makeTable(admin, size); break;
          case "spread": spread(admin); break;
          case "put": table.put(put(key, size)); break;
          case "put-many": table.put(puts(key, MANY, size)); break;
          case "put-heavy": putHeavily(puts(key, MANY, size)); break;
          case "get":
          case "get-cached": get(table, key); break;
          case "scan": scan(table, key, size); break;
          case "store": store(admin, table, key, size); break;
          case "flush": flush(admin); break;
          case "compact": compact(admin); break;
          default: throw new IllegalArgumentException("unknown operation " + operation);
        }
      } catch (IOException error) {
        regions = List.of(); // they may be elsewhere by now
        scanned = null;
        throw error;
      }
    }

    private Put put(int key, int size) throws IOException {
      return new Put(row(key)).addColumn(FAMILY, NAME, new byte[size]);
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
      if (atOnce == null) {
        atOnce = ConnectionFactory.createAsyncConnection(connection.getConfiguration()).get();
      }
      AsyncTable<?> table = atOnce.getTable(name);
      for (Put one : puts) {
        heavy.acquire();
        table.put(one).whenComplete((done, error) -> {
          failed = error == null ? failed : error;
          heavy.release();
        });
      }
      Throwable before = failed;
      failed = null;
      if (before != null) {
        throw new IOException(before);
      }
    }

    private void get(Table table, int key) throws IOException {
      Consistency ofAny = copies > 1 ? Consistency.TIMELINE : Consistency.STRONG;
      if (table.get(new Get(row(key)).setConsistency(ofAny)).isEmpty()) {
        throw new IOException("expected a row of key " + key);
      }
    }

    /** The rows from {@code key} times {@code size} on; a scan goes on from one call to the next. */
    private void scan(Table table, int key, int size) throws IOException {
      if (scanned == null || key == 0) {
        scanned = table.getScanner(new Scan().withStartRow(row(key * size)));
      }
      for (int left = size; left > 0; left--) {
        if (scanned.next() == null) {
          throw new IOException("expected rows of keys from " + key * size + " on");
        }
      }
    }

    private void store(Admin admin, Table table, int file, int size) throws Exception {
      if (file == 0) {
        empty(admin, table);
      }
      int cells = Math.max(1, size / CELL_BYTES);
      for (int key = file * cells; key < (file + 1) * cells; key++) {
        table.put(put(key, CELL_BYTES).setDurability(Durability.SKIP_WAL)); // it is flushed at once
      }
      flush(admin);
    }

    private void empty(Admin admin, Table table) throws Exception {
      List<Delete> all = new ArrayList<>();
      try (ResultScanner found = table.getScanner(new Scan().setFilter(new KeyOnlyFilter()).setCacheBlocks(false))) {
        for (Result one : found) {
          all.add(new Delete(one.getRow()));
        }
      }
      table.delete(all);
      compact(admin);
    }

    private void flush(Admin admin) throws IOException {
      for (HRegionLocation one : meant()) {
        admin.flushRegion(one.getRegion().getRegionName());
      }
    }

    private void compact(Admin admin) throws Exception {
      flush(admin);
      for (HRegionLocation one : meant()) {
        admin.majorCompactRegion(one.getRegion().getRegionName());
      }
      for (HRegionLocation one : meant()) {
        while (admin.getCompactionStateForRegion(one.getRegion().getRegionName()) != CompactionState.NONE) {
          Thread.sleep(POLL_MS);
        }
      }
    }

    private byte[] row(int key) throws IOException {
      List<HRegionLocation> among = meant();
      byte[] start = among.get(key % among.size()).getRegion().getStartKey();
      String row = (start.length == 0 ? "a" : text(start)) + String.format("%08x", key / among.size());
      return row.getBytes(StandardCharsets.US_ASCII);
    }

    private List<HRegionLocation> meant() throws IOException {
      if (regions.isEmpty()) {
        regions = new ArrayList<>(locations(name));
        regions.removeIf(one -> !isFirst(one) || !server.isEmpty() && !one.getHostname().equals(server));
      }
      if (regions.isEmpty()) {
        connection.clearRegionLocationCache();
        throw new IOException("expected a region of " + name + " on " + server);
      }
      return regions;
    }

    /** Not a copy of another. */
    private static boolean isFirst(HRegionLocation one) {
      return one.getRegion().getReplicaId() == RegionInfo.DEFAULT_REPLICA_ID;
    }

    private List<HRegionLocation> locations(TableName of) throws IOException {
      try (RegionLocator locator = connection.getRegionLocator(of)) {
        return locator.getAllRegionLocations();
      }
    }

    private static String text(byte[] bytes) {
      return new String(bytes, StandardCharsets.US_ASCII);
    }

    private void makeTable(Admin admin, int count) throws IOException {
      List<byte[]> splits = new ArrayList<>();
      for (int i = 1; i < count; i++) {
        splits.add(new byte[] {(byte) ('a' + i)});
      }
      if (!admin.tableExists(name)) {
        ColumnFamilyDescriptor family = ColumnFamilyDescriptorBuilder.newBuilder(FAMILY)
            .setConfiguration("hbase.hstore.compaction.min", String.valueOf(FILES_MAX)).build();
        admin.createTable(
            TableDescriptorBuilder.newBuilder(name).setColumnFamily(family).setRegionReplication(copies).build(),
            splits.toArray(new byte[0][]));
      }
    }

    /** Asks for what is elsewhere to be moved, a copy of a region to the next server, and fails as long as anything was. */
    private void spread(Admin admin) throws IOException {
      admin.balancerSwitch(false, true);
      connection.clearRegionLocationCache();
      List<ServerName> servers = new ArrayList<>(admin.getRegionServers());
      servers.sort(Comparator.comparing(ServerName::getHostname));
      int moved = place(admin, TableName.META_TABLE_NAME, servers.subList(servers.size() - 1, servers.size()));
      for (TableName table : admin.listTableNames()) {
        moved += place(admin, table, servers);
      }
      if (moved > 0) {
        throw new IOException(moved + " regions are being moved");
      }
    }

    private int place(Admin admin, TableName table, List<ServerName> servers) throws IOException {
      int moved = 0;
      int region = -1;
      for (HRegionLocation one : locations(table)) {
        region += isFirst(one) ? 1 : 0;
        ServerName wanted = servers.get((region + one.getRegion().getReplicaId()) % servers.size());
        if (!wanted.equals(one.getServerName())) {
          admin.move(one.getRegion().getEncodedNameAsBytes(), wanted);
          moved++;
        }
      }
      return moved;
    }

    @Override
    public void close() throws Exception {
      connection.close();
      if (atOnce != null) {
        atOnce.close();
      }
    }
  }
}
