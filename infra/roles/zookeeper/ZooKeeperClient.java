import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;

/** Gets, sets and creates znodes at one server, by ZooKeeper's own client of either generation. */
public final class ZooKeeperClient implements Lanes.Opener {
  private static final int SESSION_MS = 30_000; // what its command line asks for

  @Override
  public Lanes.Client open(String target) throws Exception {
    return new Session(target);
  }

  private static final class Session implements Lanes.Client {
    private final String target;
    private volatile ZooKeeper session;

    Session(String target) throws Exception {
      this.target = target;
      session = connected();
    }

    private ZooKeeper connected() throws Exception {
      return new ZooKeeper(target, SESSION_MS, event -> { });
    }

    @Override
    public void connect() throws Exception {
      session.exists("/", false); // a read, which the server answers by itself
    }

    @Override
    public void ask(String operation, int key, int size) throws Exception {
      if (!session.getState().isAlive()) {
        session.close(); // it expired: a new one is begun
        session = connected();
      }
      String parent = "/bytes-" + size;
      String path = parent + "/" + key;
      switch (operation) {
        case "get": session.getData(path, false, null); break;
        case "set": session.setData(path, new byte[size], -1); break;
        case "create": create(parent, 0); create(path, size); break;
        default: throw new IllegalArgumentException("get, set or create, not " + operation);
      }
    }

    private void create(String path, int size) throws Exception {
      try {
        session.create(path, new byte[size], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
      } catch (KeeperException.NodeExistsException there) {
        // As it should be.
      }
    }

    @Override
    public void close() throws Exception {
      session.close();
    }
  }
}
