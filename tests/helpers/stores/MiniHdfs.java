import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** An HDFS of one name node and one data node, until standard input ends. Prints the name node's port. */
public class MiniHdfs {
    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        configuration.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, Path.of(arguments[0]).toString());
        configuration.set("dfs.permissions.enabled", "false");
        try (MiniDFSCluster cluster = new MiniDFSCluster.Builder(configuration).numDataNodes(1).build()) {
            cluster.waitClusterUp();
            System.out.println(cluster.getNameNodePort());
            System.out.flush();
            while (System.in.read() >= 0) {}
        }
    }
}
