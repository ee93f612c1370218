import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Operations of a store, asked by its official client in lanes: each lane has a client of its own and asks one after another.
 *
 * <p>A line of the input opens a lane, lets it begin, or stops it; its words are separated by tabs:
 * <pre>
 * open ID TARGET OPERATION COUNT SIZE KEYS GAP_MS TIMEOUT_MS   COUNT 0: until it is stopped
 * go ID
 * stop ID
 * </pre>
 * Lines of the output: {@code ready}; {@code open ID}, its client is connected; {@code did ID START END OUTCOME}, an operation with the
 * nanoseconds of the monotonic clock and `ok`, `error` or `timeout`; {@code end ID REASON}. An operation that failed is asked again and
 * counts only when it succeeded; one that was not over when its lane was stopped is a `timeout`, as is one that the store itself waited
 * for in vain: its client throws TimeoutException. The end of the input ends the program.
 */
public final class Lanes {
  /** A connection to a store; used by one thread at a time, closed by another. */
  public interface Client extends AutoCloseable {
    /** Waits until it is connected, where opening it did not. */
    default void connect() throws Exception {}

    void ask(String operation, int key, int size) throws Exception;
  }

  /** What makes connections: the program's first argument names the class. */
  public interface Opener {
    Client open(String target) throws Exception;
  }

  private static final long AGAIN_MS = 50; // between a failure and the next attempt
  private static PrintStream out;

  private final String id;
  private final String target;
  private final String operation;
  private final long count;
  private final int size;
  private final int keys;
  private final long gapMs;
  private final long timeoutMs;
  private final Opener opener;
  private final CountDownLatch begun = new CountDownLatch(1);
  private volatile boolean stopped;
  private volatile Thread thread;
  private volatile Client client;
  private ExecutorService doer = newDoer();

  private Lanes(String[] words, Opener opener) {
    id = words[1];
    target = words[2];
    operation = words[3];
    count = Long.parseLong(words[4]);
    size = Integer.parseInt(words[5]);
    keys = Integer.parseInt(words[6]);
    gapMs = Long.parseLong(words[7]);
    timeoutMs = Long.parseLong(words[8]);
    this.opener = opener;
  }

  public static void main(String[] arguments) throws Exception {
    out = System.out;
    System.setOut(System.err); // libraries log there
    Opener opener = (Opener) Class.forName(arguments[0]).getDeclaredConstructor().newInstance();
    Map<String, Lanes> lanes = new ConcurrentHashMap<>();
    say("ready");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split("\t");
      Lanes lane = words[0].equals("open") ? new Lanes(words, opener) : lanes.get(words[1]);
      switch (words[0]) {
        case "open": lanes.put(lane.id, lane); lane.start(); break;
        case "go": lane.begun.countDown(); break;
        case "stop": lane.stop(); break;
        default: throw new IllegalArgumentException(line);
      }
    }
    System.exit(0);
  }

  private static void say(String line) {
    synchronized (out) {
      out.println(line);
      out.flush();
    }
  }

  private static ExecutorService newDoer() {
    return Executors.newSingleThreadExecutor(task -> daemon(task, "doer"));
  }

  private static Thread daemon(Runnable task, String name) {
    Thread thread = new Thread(task, name);
    thread.setDaemon(true);
    return thread;
  }

  private void start() {
    thread = daemon(this::run, "lane " + id);
    thread.start();
  }

  private void stop() {
    stopped = true;
    thread.interrupt();
  }

  private void run() {
    String reason = "stopped";
    try {
      while (!did(Client::connect).equals("ok")) {
        Thread.sleep(AGAIN_MS);
      }
      say("open\t" + id);
      begun.await();
      long done = 0;
      while (!stopped && (count == 0 || done < count)) {
        long from = System.nanoTime();
        int key = (int) (done % keys);
        String outcome = did(client -> client.ask(operation, key, size));
        say("did\t" + id + "\t" + from + "\t" + System.nanoTime() + "\t" + outcome);
        boolean good = outcome.equals("ok");
        done += good || count == 0 ? 1 : 0;
        long restMs = gapMs - (System.nanoTime() - from) / 1_000_000;
        if (!stopped && Math.max(restMs, good ? 0 : AGAIN_MS) > 0) {
          Thread.sleep(Math.max(restMs, good ? 0 : AGAIN_MS));
        }
      }
      reason = stopped ? "stopped" : "done";
    } catch (InterruptedException error) {
      reason = "stopped";
    } finally {
      forget();
      say("end\t" + id + "\t" + reason);
    }
  }

  private interface Work {
    void of(Client client) throws Exception;
  }

  /** What became of some work; what takes too long is left to itself, with its client. */
  private String did(Work work) throws InterruptedException {
    if (stopped) {
      throw new InterruptedException();
    }
    Future<?> asked = doer.submit(() -> {
      Client now = client;
      if (now == null) {
        now = opener.open(target);
        client = now;
      }
      work.of(now);
      return null;
    });
    try {
      asked.get(timeoutMs, TimeUnit.MILLISECONDS);
      return "ok";
    } catch (ExecutionException error) {
      System.err.println("lane " + id + " " + operation + " at " + target + ": " + error.getCause());
      return error.getCause() instanceof TimeoutException ? "timeout" : "error";
    } catch (TimeoutException | InterruptedException error) {
      forget();
      doer = newDoer();
      return "timeout";
    }
  }

  private void forget() {
    doer.shutdownNow();
    Client left = client;
    client = null;
    if (left != null) {
      daemon(() -> {
        try {
          left.close();
        } catch (Exception error) {
          System.err.println("lane " + id + ": " + error);
        }
      }, "closing").start();
    }
  }
}
