import java.util.EnumSet;
import java.util.Properties;
import javax.servlet.DispatcherType;
import org.apache.solr.servlet.CoreContainerProvider;
import org.apache.solr.servlet.SolrDispatchFilter;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.DefaultServlet;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.util.thread.QueuedThreadPool;

/** Runs Solr in Jetty in the foreground: {@code SolrServer HOME PORT}. SIGTERM ends it in order. */
public final class SolrServer {
  private static final int THREADS_MAX = 64;
  private static final int STOP_LIMIT_MS = 4_000;

  private SolrServer() {}

  public static void main(String[] arguments) throws Exception {
    String home = arguments[0];
    int port = Integer.parseInt(arguments[1]);
    Server server = new Server(new QueuedThreadPool(THREADS_MAX));
    ServerConnector connector = new ServerConnector(server);
    connector.setPort(port);
    server.addConnector(connector);
    ServletContextHandler solr = new ServletContextHandler(server, "/solr");
    solr.setAttribute(SolrDispatchFilter.SOLRHOME_ATTRIBUTE, home);
    solr.setAttribute(SolrDispatchFilter.PROPERTIES_ATTRIBUTE, new Properties());
    solr.addEventListener(new CoreContainerProvider());
    solr.addFilter(SolrDispatchFilter.class, "/*", EnumSet.of(DispatcherType.REQUEST));
    solr.setResourceBase(home);
    solr.addServlet(DefaultServlet.class, "/");
    server.setStopAtShutdown(true);
    server.setStopTimeout(STOP_LIMIT_MS);
    server.start();
    server.join();
  }
}
