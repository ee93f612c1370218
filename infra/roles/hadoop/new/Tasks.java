import java.io.IOException;
import java.security.PrivilegedExceptionAction;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ApplicationSubmissionContext;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerLaunchContext;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.NodeReport;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.client.api.AMRMClient;
import org.apache.hadoop.yarn.client.api.NMClient;
import org.apache.hadoop.yarn.client.api.YarnClient;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.security.AMRMTokenIdentifier;

/**
 * Tasks at a worker that one chooses, in one of its places: of an application that is led from here, so that it takes no place for that. A
 * task is a shell that does nothing, as a JVM's start is most of the work of a small one.
 */
final class Tasks implements AutoCloseable {
  static final int SHUFFLE_PORT = 13562;
  private static final int MEMORY_MB = 256;
  private static final long LOOK_MS = 100;

  private final YarnConfiguration configuration;
  private final String worker;
  private final UserGroupInformation user;
  private final YarnClient client = YarnClient.createYarnClient();
  private final AMRMClient<AMRMClient.ContainerRequest> places = AMRMClient.createAMRMClient();
  private final NMClient starts = NMClient.createNMClient();
  private ApplicationId application;
  private Resource place;

  Tasks(JobConf configuration, String worker) throws Exception {
    this.configuration = new YarnConfiguration(configuration);
    this.worker = worker;
    // A user of its own: its token is only for this application.
    user = UserGroupInformation.createRemoteUser(UserGroupInformation.getCurrentUser().getUserName());
    user.doAs((PrivilegedExceptionAction<Void>) this::begin);
  }

  private Void begin() throws Exception {
    client.init(configuration);
    client.start();
    place = place();
    ApplicationSubmissionContext context = client.createApplication().getApplicationSubmissionContext();
    application = context.getApplicationId();
    context.setApplicationName("tasks at " + worker);
    context.setApplicationType("tasks");
    context.setUnmanagedAM(true);
    context.setMaxAppAttempts(1);
    context.setResource(Resource.newInstance(MEMORY_MB, 1));
    context.setAMContainerSpec(command());
    client.submitApplication(context);
    Token<AMRMTokenIdentifier> token = client.getAMRMToken(application);
    for (; token == null; token = client.getAMRMToken(application)) {
      Thread.sleep(LOOK_MS);
    }
    UserGroupInformation.getCurrentUser().addToken(token);
    places.init(configuration);
    places.start();
    places.registerApplicationMaster("", 0, "");
    starts.init(configuration);
    starts.start();
    return null;
  }

  /** What a reduce asks for, or a map, where the worker has no place for reduces. */
  private Resource place() throws Exception {
    for (NodeReport one : client.getNodeReports(NodeState.RUNNING)) {
      if (one.getNodeId().getHost().equals(worker)) {
        Resource found = Resource.newInstance(MEMORY_MB, 1);
        found.setResourceValue(one.getCapability().getResourceValue("reduces") > 0 ? "reduces" : "maps", 1);
        return found;
      }
    }
    throw new IOException("no worker " + worker);
  }

  private static ContainerLaunchContext command() {
    return ContainerLaunchContext.newInstance(
        Collections.emptyMap(), Collections.emptyMap(), List.of("true"), Collections.emptyMap(), null, Collections.emptyMap());
  }

  /** One task from its request to its end. */
  void run() throws Exception {
    user.doAs((PrivilegedExceptionAction<Void>) this::runAs);
  }

  private Void runAs() throws Exception {
    AMRMClient.ContainerRequest request =
        new AMRMClient.ContainerRequest(place, new String[] {worker}, null, Priority.newInstance(1), false);
    places.addContainerRequest(request);
    ContainerId begun = null;
    while (true) {
      AllocateResponse said = places.allocate(0.5f);
      for (Container one : said.getAllocatedContainers()) {
        if (begun == null) {
          begun = one.getId();
          places.removeContainerRequest(request);
          starts.startContainer(one, command());
        } else {
          places.releaseAssignedContainer(one.getId());
        }
      }
      for (ContainerStatus one : said.getCompletedContainersStatuses()) {
        if (one.getContainerId().equals(begun)) {
          if (one.getExitStatus() != 0) {
            throw new IOException(one.toString());
          }
          return null;
        }
      }
      Thread.sleep(LOOK_MS);
    }
  }

  @Override
  public void close() throws Exception {
    if (application != null) {
      client.killApplication(application);
    }
    starts.stop();
    places.stop();
    client.stop();
  }
}
