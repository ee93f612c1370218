import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.client.HdfsDataInputStream;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;

/** On which DataNodes a file is put and read, in Hadoop 3: the NameNode has favoured ones. */
final class Placing {
  private static final int PORT = 9866;
  private static final int BUFFER_BYTES = 64 << 10;

  private Placing() {}

  /** A file with a replica on each of these DataNodes, given by their addresses. */
  static OutputStream create(FileSystem files, Path path, long blockBytes, List<String> nodes) throws IOException {
    InetSocketAddress[] favoured = new InetSocketAddress[nodes.size()];
    for (int at = 0; at < favoured.length; at++) {
      byte[] address = InetAddress.getByName(nodes.get(at)).getAddress();
      favoured[at] = new InetSocketAddress(InetAddress.getByAddress(nodes.get(at), address), PORT); // not the name that it has
    }
    DistributedFileSystem hdfs = (DistributedFileSystem) files;
    return hdfs.create(path, FsPermission.getFileDefault(), true, BUFFER_BYTES, (short) favoured.length, blockBytes, null, favoured);
  }

  /** The addresses of the DataNodes that the first block is read of, the first one first. */
  static List<String> order(FSDataInputStream in) throws IOException {
    List<String> found = new ArrayList<>();
    for (DatanodeInfo one : ((HdfsDataInputStream) in).getAllBlocks().get(0).getLocations()) {
      found.add(one.getIpAddr());
    }
    return found;
  }

  /** The replicas that a DataNode has of a file are bad, says a client. */
  static void reportBad(DistributedFileSystem files, Path path, String node) throws IOException {
    for (LocatedBlock block : files.getClient().getLocatedBlocks(path.toUri().getPath(), 0).getLocatedBlocks()) {
      for (int at = 0; at < block.getLocations().length; at++) {
        DatanodeInfo one = block.getLocations()[at];
        if (one.getIpAddr().equals(node)) {
          String[] storages = {block.getStorageIDs()[at]};
          StorageType[] types = {block.getStorageTypes()[at]};
          LocatedBlock bad = new LocatedBlock(block.getBlock(), new DatanodeInfo[] {one}, storages, types);
          files.getClient().getNamenode().reportBadBlocks(new LocatedBlock[] {bad});
        }
      }
    }
  }

  /** Words that tell the balancer of these two DataNodes only: it moves a whole block for a few bytes above the mean. */
  static List<String> balancedAmong(String full, String empty) {
    return Arrays.asList("-include", full + "," + empty);
  }
}
