import org.apache.hadoop.mapred.JobConf;

/** Tasks at a worker that one chooses: Hadoop 1.0 has none, its JobTracker decides. */
final class Tasks implements AutoCloseable {
  static final int SHUFFLE_PORT = 50060;

  Tasks(JobConf configuration, String worker) {
    throw new UnsupportedOperationException("a task at " + worker);
  }

  void run() {}

  @Override
  public void close() {}
}
