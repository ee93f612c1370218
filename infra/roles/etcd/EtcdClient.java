import static java.nio.charset.StandardCharsets.UTF_8;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.options.GetOption;

/** Puts and gets keys at one server, by etcd's Java client. */
public final class EtcdClient implements Lanes.Opener {
  @Override
  public Lanes.Client open(String target) {
    return new Session(Client.builder().endpoints("http://" + target).build());
  }

  private static final class Session implements Lanes.Client {
    private final Client client;

    Session(Client client) {
      this.client = client;
    }

    @Override
    public void connect() throws Exception {
      ask("get-own", 0, 1);
    }

    @Override
    public void ask(String operation, int key, int size) throws Exception {
      ByteSequence name = ByteSequence.from("bytes-" + size + "/" + key, UTF_8);
      switch (operation) {
        case "put": client.getKVClient().put(name, ByteSequence.from(new byte[size])).get(); break;
        case "get-own": // of the server's own copy: a get as such asks the leader too
          client.getKVClient().get(name, GetOption.builder().withSerializable(true).build()).get();
          break;
        default: throw new IllegalArgumentException("put or get-own, not " + operation);
      }
    }

    @Override
    public void close() {
      client.close();
    }
  }
}
