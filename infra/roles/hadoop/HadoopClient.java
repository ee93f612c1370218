import java.io.BufferedInputStream;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URL;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.GZIPInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapred.FileInputFormat;
import org.apache.hadoop.mapred.FileOutputFormat;
import org.apache.hadoop.mapred.JobClient;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.JobStatus;
import org.apache.hadoop.mapred.RunningJob;
import org.apache.hadoop.mapred.TaskReport;
import org.apache.hadoop.mapred.lib.LongSumReducer;
import org.apache.hadoop.mapred.lib.TokenCountMapper;

/**
 * Jobs that count words, by Hadoop's own client of either generation and with its own classes; {@code Tasks} has what differs.
 *
 * <p>A target is {@code JOBS HISTORY NAMENODE WORKER,... [KEY=VALUE,...]}: addresses, and what jobs are configured with beyond the
 * machines' own. Text is of GCIDE, as Debian has it.
 */
public final class HadoopClient implements Lanes.Opener {
  private static final String TEXT = "/usr/share/dictd/gcide.dict.dz";
  private static final Path COUNTED = new Path("/row");
  private static final int BLOCK_BYTES = 8 << 20; // what a map has: as many maps as there are places, so that each worker has some
  private static final int PIECE_BYTES = 4 << 20; // what a small job has
  private static final int PIECES = 4;
  private static final int REDUCES = 2; // one on each worker that has places for them
  private static final int AT_ONCE = 4; // small jobs: as many as there are places for reduces
  private static final int BUFFER_BYTES = 64 << 10;
  private static final long LOOK_MS = 200;
  private static final long TOLD_MS = 1000; // how often a job's progress is
  private static final AtomicLong NUMBER = new AtomicLong(System.nanoTime());

  @Override
  public Lanes.Client open(String target) throws Exception {
    return new Session(target.split(" "));
  }

  /** A job with a client of its own: today's takes a new connection for each job and closes the last one's, of jobs under way too. */
  private static final class Begun {
    final JobClient client;
    final RunningJob job;

    Begun(JobConf asked) throws IOException {
      client = new JobClient(asked);
      job = client.submitJob(asked);
    }
  }

  private static final class Session implements Lanes.Client {
    private final JobConf configuration = new JobConf();
    private final List<String> workers;
    private final FileSystem files;
    private final List<Begun> underWay = new CopyOnWriteArrayList<>();
    private JobClient jobs;
    private Tasks tasks;
    private long toldMs;

    Session(String[] target) throws Exception {
      workers = Arrays.asList(target[3].split(","));
      // In place of what the machines' own configuration, which is read too, leaves to their scripts.
      for (String name : new String[] {"fs.default.name", "fs.defaultFS"}) {
        configuration.set(name, "hdfs://" + target[2] + ":8020");
      }
      configuration.set("hadoop.tmp.dir", "/tmp/limplock");
      configuration.set("mapred.job.tracker", target[0] + ":8032");
      configuration.set("yarn.resourcemanager.hostname", target[0]);
      configuration.set("mapreduce.jobhistory.address", target[1] + ":10020");
      for (String option : target.length > 4 ? target[4].split(",") : new String[0]) {
        configuration.set(option.split("=")[0], option.split("=")[1]);
      }
      configuration.setInt("ipc.client.connect.max.retries", 1); // a job's leader that is gone is not asked for long
      files = FileSystem.get(configuration);
    }

    @Override
    public void ask(String operation, int key, int size) throws Exception {
      switch (operation) {
        case "text": write(text(size), (long) size << 20, BLOCK_BYTES); break;
        case "pieces": write(piece(key), PIECE_BYTES, PIECE_BYTES); break;
        case "clear": clear(); break;
        case "wordcount": count(text(size), REDUCES, 0); break;
        case "trace-task": count(piece(key % PIECES), 1, key + 1 == size ? 0 : AT_ONCE - 1); break;
        case "fetch": fetch(); break;
        case "task": task(); break;
        default: throw new IllegalArgumentException("no operation of MapReduce: " + operation);
      }
    }

    private static Path text(int megabytes) {
      return new Path("/text/" + megabytes);
    }

    private static Path piece(int key) {
      return new Path("/text/piece-" + key);
    }

    /** So much of the dictionary, again and again, with a replica on each worker. */
    private void write(Path path, long size, int blockBytes) throws Exception {
      byte[] bytes = new byte[BUFFER_BYTES];
      try (OutputStream out = Placing.create(files, path, blockBytes, workers)) {
        long left = size;
        while (left > 0) {
          try (InputStream in = new GZIPInputStream(new BufferedInputStream(new FileInputStream(TEXT)))) {
            for (int got = in.read(bytes); got > 0 && left > 0; got = in.read(bytes)) {
              out.write(bytes, 0, (int) Math.min(got, left));
              left -= got;
            }
          }
        }
      }
    }

    private JobClient jobs() throws IOException {
      if (jobs == null) {
        jobs = new JobClient(configuration);
      }
      return jobs;
    }

    @Override
    public void connect() throws Exception {
      files.exists(COUNTED);
    }

    /** No job is left, nor what they wrote. */
    private void clear() throws Exception {
      for (JobStatus[] some = jobs().jobsToComplete(); some.length > 0; some = jobs().jobsToComplete()) {
        for (JobStatus one : some) {
          RunningJob job = jobs().getJob(one.getJobID());
          if (job != null) {
            job.killJob();
          }
        }
        Thread.sleep(LOOK_MS);
      }
      files.delete(COUNTED, true);
    }

    /** Begins a job, and waits until no more than so many of this session are left. */
    private void count(Path input, int reduces, int leftMax) throws Exception {
      JobConf job = new JobConf(configuration);
      job.setJobName("words");
      job.setMapperClass(TokenCountMapper.class);
      job.setCombinerClass(LongSumReducer.class);
      job.setReducerClass(LongSumReducer.class);
      job.setOutputKeyClass(Text.class);
      job.setOutputValueClass(LongWritable.class);
      job.setNumMapTasks(1); // each block one, whatever this says
      job.setNumReduceTasks(reduces);
      FileInputFormat.setInputPaths(job, input);
      FileOutputFormat.setOutputPath(job, new Path(COUNTED, Long.toString(NUMBER.incrementAndGet(), 36)));
      underWay.add(new Begun(job));
      while (left() > leftMax) {
        Thread.sleep(LOOK_MS);
      }
    }

    /** How many jobs are not over; a failed one is an error. */
    private int left() throws IOException {
      boolean telling = System.nanoTime() / 1_000_000 - toldMs > TOLD_MS;
      for (Begun one : underWay) {
        if (telling) {
          tell(one);
        }
        if (one.job.isComplete()) {
          long overNs = System.nanoTime();
          underWay.remove(one);
          boolean succeeded = one.job.isSuccessful();
          System.err.println("job-over " + overNs + " " + one.job.getID() + (succeeded ? " succeeded" : " failed"));
          int state = one.job.getJobState();
          one.client.close();
          if (!succeeded) {
            throw new IOException(one.job.getID() + ": expected to succeed, came state " + state);
          }
        }
      }
      return underWay.size();
    }

    /** How far a job's maps are, all of them as one, and each reduce; the old release's may be beyond their end. */
    private void tell(Begun begun) throws IOException {
      RunningJob job = begun.job;
      StringBuilder said = new StringBuilder("progress " + System.nanoTime() + " " + job.getID());
      said.append(" maps=").append(Math.min(1, job.mapProgress()));
      for (TaskReport one : begun.client.getReduceTaskReports(job.getID())) {
        said.append(" reduce-").append(one.getTaskID().getId()).append('=').append(Math.min(1, one.getProgress()));
      }
      toldMs = System.nanoTime() / 1_000_000;
      System.err.println(said);
    }

    /** What reducers ask a worker for: the output of a map, here of none that there was, so that it refuses. */
    private void fetch() throws IOException {
      URL url = new URL("http://" + workers.get(0) + ":" + Tasks.SHUFFLE_PORT + "/mapOutput?job=job_1_0001&reduce=0&map=none");
      HttpURLConnection asked = (HttpURLConnection) url.openConnection();
      if (asked.getResponseCode() < 400) {
        throw new IOException(url + ": expected to be refused, came " + asked.getResponseCode());
      }
      asked.disconnect();
    }

    private void task() throws Exception {
      if (tasks == null) {
        tasks = new Tasks(configuration, workers.get(0));
      }
      tasks.run();
    }

    @Override
    public void close() throws Exception {
      for (Begun one : underWay) {
        one.job.killJob();
        one.client.close();
      }
      if (tasks != null) {
        tasks.close();
      }
    }
  }
}
