import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;

/** What makes HDFS itself move or copy blocks: replicas that are lost, a DataNode that leaves, a balancing. */
final class Moves {
  private static final long LOOK_MS = 20;
  private static final long SILENT_MS = 10_000; // three heartbeats, and some
  private static final Path LEAVING = new Path("/leaving"); // start.sh's: whose folders are the NameNode's exclude file
  private static final String BALANCER = "org.apache.hadoop.hdfs.server.balancer.Balancer";
  private static final String BALANCER_HEAP = "-Xmx96m";
  private static final long BALANCED_BYTES = 32L << 20; // half a block
  private static final String THRESHOLD = "1"; // per cent of a DataNode, the least that it takes

  private Moves() {}

  /** Whether each of these DataNodes has a good replica, as the NameNode says. */
  static boolean isThere(FileSystem files, Path path, List<String> at) throws IOException {
    FileStatus status = files.getFileStatus(path);
    for (BlockLocation block : files.getFileBlockLocations(status, 0, status.getLen())) {
      Set<String> found = new HashSet<>();
      for (String name : block.getNames()) {
        found.add(name.split(":")[0]);
      }
      if (!found.containsAll(at)) {
        return false;
      }
    }
    return status.getLen() > 0;
  }

  /**
   * The replicas that a DataNode has of all files below a folder are reported as bad, as a client does that reads one whose checksum is
   * wrong; returns when all others have one. The NameNode has them made anew from those that are left, as when the DataNode is dead.
   */
  static void regain(DistributedFileSystem files, Path folder, String lost, List<String> others) throws Exception {
    List<Path> all = new ArrayList<>();
    for (FileStatus below : files.listStatus(folder)) {
      for (FileStatus one : files.listStatus(below.getPath())) {
        all.add(one.getPath());
      }
    }
    for (Path path : all) {
      Placing.reportBad(files, path, lost);
    }
    for (Path path : all) {
      while (!isThere(files, path, others)) {
        Thread.sleep(LOOK_MS);
      }
    }
  }

  /** A DataNode leaves; returns when the NameNode says that it has: all of its blocks have their replicas elsewhere. */
  static void dismiss(DistributedFileSystem files, String node) throws Exception {
    files.mkdirs(new Path(LEAVING, node));
    while (!stateOf(files, node).isDecommissioned()) {
      if (!stateOf(files, node).isDecommissionInProgress()) {
        files.refreshNodes();
      }
      Thread.sleep(5 * LOOK_MS);
    }
  }

  /** Nobody leaves, and those that left are back: the old NameNode has them end, and start.sh starts them again. */
  static void welcome(DistributedFileSystem files) throws Exception {
    files.delete(LEAVING, true);
    for (DatanodeInfo one : files.getDataNodeStats()) {
      while (isLeaving(stateOf(files, addressOf(one))) || isSilent(stateOf(files, addressOf(one)))) {
        files.refreshNodes();
        Thread.sleep(5 * LOOK_MS);
      }
    }
  }

  private static boolean isSilent(DatanodeInfo one) {
    return System.currentTimeMillis() - one.getLastUpdate() > SILENT_MS;
  }

  private static boolean isLeaving(DatanodeInfo one) {
    return one.isDecommissioned() || one.isDecommissionInProgress();
  }

  private static DatanodeInfo stateOf(DistributedFileSystem files, String node) throws IOException {
    for (DatanodeInfo one : files.getDataNodeStats()) {
      if (addressOf(one).equals(node)) {
        return one;
      }
    }
    throw new IOException("expected a DataNode " + node + ", came " + Arrays.toString(files.getDataNodeStats()));
  }

  private static String addressOf(DatanodeInfo one) {
    return one.getName().split(":")[0];
  }

  /**
   * Hadoop's own program, until it ends and the second of two DataNodes, which had none, has blocks. Its exit code says nothing, as 3.4.1's
   * fails to count in its second turn.
   */
  static void balance(DistributedFileSystem files, String namenode, String full, String empty, Map<String, String> options)
      throws Exception {
    List<String> words = new ArrayList<>(Arrays.asList(
        System.getProperty("java.home") + "/bin/java", BALANCER_HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-Djava.net.preferIPv4Stack=true", "-Djdk.net.hosts.file=" + System.getProperty("jdk.net.hosts.file"),
        "-cp", System.getProperty("java.class.path"), BALANCER, "-D", "fs.default.name=" + namenode));
    options.forEach((key, value) -> words.addAll(Arrays.asList("-D", key + "=" + value)));
    words.addAll(Arrays.asList("-threshold", THRESHOLD));
    words.addAll(Placing.balancedAmong(full, empty));
    File nowhere = new File("/dev/null");
    Process balancer = new ProcessBuilder(words).redirectOutput(nowhere).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    try {
      int code = balancer.waitFor();
      long used = stateOf(files, empty).getDfsUsed();
      if (used < BALANCED_BYTES) {
        throw new IOException("expected blocks on " + empty + ", came " + used + " bytes and exit code " + code + " of the balancer");
      }
    } finally {
      balancer.destroyForcibly(); // whoever waits for it may be interrupted
    }
  }
}
