import java.io.IOException;
import java.io.OutputStream;
import java.security.PrivilegedExceptionAction;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.security.UserGroupInformation;

/**
 * Files of HDFS, by Hadoop's own client of either generation; {@code Placing} has what differs.
 *
 * <p>A target is {@code NAMENODE:PORT FOLDER DATANODE,... KEY=VALUE,...}: where files are, the DataNodes that are asked, the first one
 * first, and what of Hadoop's configuration is not as it is by default.
 */
public final class HdfsClient implements Lanes.Opener {
  private static final long BLOCK_BYTES = 64L << 20; // the paper's
  private static final int REPLICAS = 3;
  private static final int AT_ONCE = 16; // creates: more than the NameNode has handlers
  private static final int BUFFER_BYTES = 64 << 10;
  private static final int POSITIONED_BYTES = 1 << 20; // as much as is read at once of a position
  private static final int OPENED_MAX = 50; // of three replicas each is the first as often
  private static final int LOOKED_MAX = 100;
  private static final long LOOK_MS = 20;
  private static final int STRIDE = 7919; // a prime: all pieces of a file in an order that no read ahead foresees
  private static final AtomicLong NUMBER = new AtomicLong(System.nanoTime());
  private static final Map<Path, AtomicLong> PIECES = new ConcurrentHashMap<>();

  @Override
  public Lanes.Client open(String target) throws Exception {
    return new Session(target.split(" "));
  }

  private static final class Session implements Lanes.Client {
    private final Path folder;
    private final List<String> nodes;
    private final String namenode;
    private final Map<String, String> options = new HashMap<>();
    private final DistributedFileSystem files;
    private final ExecutorService calls = Executors.newCachedThreadPool(Session::daemon);
    private Semaphore heavy; // creates under way
    private volatile Throwable failed; // a create that was under way
    private FSDataInputStream pieces;
    private long length;

    Session(String[] target) throws Exception {
      folder = new Path(target[1]);
      nodes = Arrays.asList(target[2].split(","));
      Configuration configuration = new Configuration();
      namenode = "hdfs://" + target[0];
      configuration.set("fs.default.name", namenode);
      configuration.set("fs.defaultFS", namenode);
      configuration.setBoolean("fs.hdfs.impl.disable.cache", true);
      // A file is closed as soon as the NameNode heard of its block: asked first after 10 ms, not 400, which small files would be
      // measured by. As long in all as by default; Hadoop 1.0 has no such words, and waits 400.
      configuration.setInt("dfs.client.block.write.locateFollowingBlock.initial.delay.ms", 10);
      configuration.setInt("dfs.client.block.write.locateFollowingBlock.retries", 10);
      for (String option : target.length > 3 ? target[3].split(",") : new String[0]) {
        String[] words = option.split("=");
        options.put(words[0], words[1]);
        configuration.set(words[0], words[1]);
      }
      // Of a user of its own, so that it has a connection of its own.
      UserGroupInformation user = UserGroupInformation.createRemoteUser("lane-" + NUMBER.incrementAndGet());
      files = (DistributedFileSystem) user.doAs((PrivilegedExceptionAction<FileSystem>) () -> FileSystem.get(configuration));
    }

    private static Thread daemon(Runnable task) {
      Thread thread = new Thread(task, "call");
      thread.setDaemon(true);
      return thread;
    }

    @Override
    public void connect() throws Exception {
      files.exists(folder); // which the NameNode answers from its memory
    }

    @Override
    public void ask(String operation, int key, int size) throws Exception {
      switch (operation) {
        case "stat": files.getFileStatus(folder); break;
        case "mkdir": files.mkdirs(fresh()); break;
        case "create": many(this::create); break;
        case "create-heavy": heavily(this::create, size); break;
        case "log": many(() -> files.mkdirs(fresh())); break;
        case "write": write(fresh(), size, turned(0)); break;
        case "write-block": writeBlock(size); break;
        case "read": read(file(key), turned(key)); break;
        case "read-positions": readPositions(file(key), turned(key)); break;
        case "read-block": case "read-cached": readPiece(size); break;
        case "replicate": replicate(file(key)); break;
        case "regenerate": regenerate(size); break;
        case "regain": Moves.regain(files, folder, nodes.get(0), nodes.subList(1, nodes.size())); break;
        case "dismiss": Moves.dismiss(files, nodes.get(0)); break;
        case "welcome": Moves.welcome(files); break;
        case "balance": Moves.balance(files, namenode, nodes.get(1), nodes.get(0), options); break;
        case "place": place(file(key), size, turned(key)); break;
        case "clear": files.delete(folder, true); break;
        default: throw new IllegalArgumentException("no operation of HDFS: " + operation);
      }
    }

    private Path file(int key) {
      return new Path(folder, String.valueOf(key));
    }

    private Path fresh() {
      return new Path(folder, Long.toString(NUMBER.incrementAndGet(), 36));
    }

    /** As many DataNodes as there are replicas, each the first one as often. */
    private List<String> turned(int key) {
      List<String> found = new ArrayList<>(nodes);
      Collections.rotate(found, -key);
      return found.subList(0, Math.min(REPLICAS, found.size()));
    }

    private Void create() throws IOException {
      files.create(fresh(), false, BUFFER_BYTES, (short) REPLICAS, BLOCK_BYTES).close();
      return null;
    }

    /** As many at once as keep all handlers of a NameNode busy. */
    private void many(Callable<?> call) throws Exception {
      for (Future<?> one : calls.invokeAll(Collections.nCopies(AT_ONCE, call))) {
        one.get();
      }
    }

    /** The same, without a pause until all are done: returns when the last one is under way, of so many at most. */
    private void heavily(Callable<?> call, int most) throws Exception {
      if (heavy == null) {
        heavy = new Semaphore(most);
      }
      for (int i = 0; i < AT_ONCE; i++) {
        heavy.acquire();
        calls.execute(() -> {
          try {
            call.call();
          } catch (Exception error) {
            failed = error;
          } finally {
            heavy.release();
          }
        });
      }
      Throwable before = failed;
      failed = null;
      if (before != null) {
        throw new IOException(before);
      }
    }

    /** A file on all of these DataNodes. */
    private void write(Path path, long size, List<String> at) throws Exception {
      byte[] bytes = new byte[BUFFER_BYTES];
      try (OutputStream out = Placing.create(files, path, BLOCK_BYTES, at)) {
        for (long left = size; left > 0; left -= bytes.length) {
          out.write(bytes, 0, (int) Math.min(left, bytes.length));
        }
      }
    }

    /** The same, and an error where the NameNode chose others. */
    private void writeThere(Path path, long size, List<String> at) throws Exception {
      write(path, size, at);
      for (int looked = 0; !Moves.isThere(files, path, at); looked++) {
        if (looked == LOOKED_MAX) {
          throw new IOException(path + ": expected on " + at + ", came elsewhere");
        }
        Thread.sleep(LOOK_MS); // the first replica that is told of is enough for the client
      }
    }

    private void place(Path path, long size, List<String> at) throws Exception {
      if (!files.exists(path) || files.getFileStatus(path).getLen() != size || !Moves.isThere(files, path, at)) {
        writeThere(path, size, at);
      }
    }

    /** More replicas, until all DataNodes have one. */
    private void replicate(Path path) throws Exception {
      files.setReplication(path, (short) nodes.size());
      while (!Moves.isThere(files, path, nodes)) {
        Thread.sleep(LOOK_MS);
      }
    }

    /**
     * A small block of which this DataNode alone has a replica, until another has one too. The NameNode chooses where to; one in three goes
     * to a DataNode that limps, which no median shows. It is one block, since the NameNode asks a DataNode for two copies at a time, and
     * first of blocks with one replica: two of them at each, and the row's own block is asked of nobody.
     */
    private void regenerate(int size) throws Exception {
      Path path = fresh();
      try {
        write(path, size, nodes);
        files.setReplication(path, (short) 2);
        while (files.getFileBlockLocations(files.getFileStatus(path), 0, 1)[0].getNames().length < 2) {
          Thread.sleep(10 * LOOK_MS);
        }
      } finally {
        remove(path);
      }
    }

    /** A block on these DataNodes, of a file that is not there afterwards. */
    private void writeBlock(int size) throws Exception {
      Path path = fresh();
      try {
        writeThere(path, size, nodes);
      } finally {
        remove(path);
      }
    }

    /**
     * A file, also one that was not written to its end: nobody else may create that until its writer is taken for dead, and in 1.0.4 no
     * DataNode that has a block of it can leave.
     */
    private void remove(Path path) throws IOException {
      boolean wasCut = Thread.interrupted();
      files.delete(path, false);
      if (wasCut) {
        Thread.currentThread().interrupt();
      }
    }

    /** The whole file, of those replicas first that are on this DataNode. */
    private void read(Path path, List<String> at) throws Exception {
      byte[] bytes = new byte[BUFFER_BYTES];
      try (FSDataInputStream in = openAt(path, at.get(0))) {
        while (in.read(bytes) >= 0) {
          // What it holds does not matter.
        }
      }
    }

    /** The same, a piece after another by its position. */
    private void readPositions(Path path, List<String> at) throws Exception {
      byte[] bytes = new byte[POSITIONED_BYTES];
      long size = files.getFileStatus(path).getLen();
      try (FSDataInputStream in = openAt(path, at.get(0))) {
        for (long from = 0; from < size; from += bytes.length) {
          in.readFully(from, bytes, 0, (int) Math.min(bytes.length, size - from));
        }
      }
    }

    /** A NameNode lists replicas for a client on no DataNode in any order, and they are read in that one. */
    private FSDataInputStream openAt(Path path, String node) throws Exception {
      for (int opened = 1; ; opened++) {
        FSDataInputStream in = files.open(path, BUFFER_BYTES);
        if (opened == OPENED_MAX || Placing.order(in).get(0).equals(node)) {
          return in;
        }
        in.close();
      }
    }

    /** Some bytes of a file that is open: the NameNode is not asked. Each time others, until all were read. */
    private void readPiece(int size) throws Exception {
      Path path = file(0);
      if (pieces == null) {
        length = files.getFileStatus(path).getLen();
        pieces = files.open(path, BUFFER_BYTES);
      }
      long piece = PIECES.computeIfAbsent(path, none -> new AtomicLong()).getAndIncrement();
      pieces.readFully(piece * STRIDE % (length / size) * size, new byte[size]);
    }

    @Override
    public void close() throws Exception {
      calls.shutdownNow();
      files.close();
    }
  }
}
