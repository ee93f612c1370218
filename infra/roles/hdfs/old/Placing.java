import java.io.IOException;
import java.io.OutputStream;
import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;

/**
 * On which DataNodes a file is put and read, in Hadoop 1.0: its client may leave some out when it asks the NameNode for a block, as it does
 * once they failed, but offers no way to say so.
 */
final class Placing {
  private static final int BUFFER_BYTES = 64 << 10;

  private Placing() {}

  /** A file with a replica on each of these DataNodes, given by their addresses. */
  static OutputStream create(FileSystem files, Path path, long blockBytes, List<String> nodes) throws Exception {
    FSDataOutputStream out = files.create(path, true, BUFFER_BYTES, (short) nodes.size(), blockBytes);
    OutputStream wrapped = out.getWrappedStream();
    Field field = open(wrapped.getClass().getDeclaredField("excludedNodes"));
    @SuppressWarnings("unchecked")
    List<DatanodeInfo> excluded = (List<DatanodeInfo>) field.get(wrapped);
    for (DatanodeInfo one : ((DistributedFileSystem) files).getDataNodeStats()) {
      if (!nodes.contains(one.getHost())) {
        excluded.add(one);
      }
    }
    return out;
  }

  /** The addresses of the DataNodes that the first block is read of, the first one first. */
  static List<String> order(FSDataInputStream in) throws Exception {
    Method blocks = open(in.getClass().getDeclaredMethod("getAllBlocks"));
    List<String> found = new ArrayList<>();
    for (DatanodeInfo one : ((LocatedBlock) ((List<?>) blocks.invoke(in)).get(0)).getLocations()) {
      found.add(one.getHost());
    }
    return found;
  }

  /** The replicas that a DataNode has of a file are bad, says a client. */
  static void reportBad(DistributedFileSystem files, Path path, String node) throws IOException {
    ClientProtocol namenode = files.getClient().namenode;
    String name = path.toUri().getPath();
    for (LocatedBlock block : namenode.getBlockLocations(name, 0, Long.MAX_VALUE).getLocatedBlocks()) {
      for (DatanodeInfo one : block.getLocations()) {
        if (one.getHost().equals(node)) {
          namenode.reportBadBlocks(new LocatedBlock[] {new LocatedBlock(block.getBlock(), new DatanodeInfo[] {one})});
        }
      }
    }
  }

  /** Nothing: its balancer knows of all DataNodes, and leaves those alone that are less than its threshold off the mean. */
  static List<String> balancedAmong(String full, String empty) {
    return Collections.emptyList();
  }

  private static <T extends AccessibleObject> T open(T member) {
    member.setAccessible(true);
    return member;
  }
}
