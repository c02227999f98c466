package continuing;

import fixtures.Cluster;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.jobmaster.JobResult;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.types.Row;

/**
 * Runs a job of the queries. Arguments: a directory, name, state backend, file of orders, savepoint to begin with (or -).
 * DIRECTORY/name.jsonl holds what the queries told, or name.error why Flink refused. Without a savepoint to begin with,
 * the job idles after its orders, a savepoint is taken, and its path is in name.savepoint.
 */
public final class Continuing {
    private static final int PARALLELISM = 2;
    private static final long LIMIT = 60_000;

    private Continuing() {}

    public static void main(String[] arguments) throws Exception {
        Path root = Paths.get(arguments[0]);
        List<String> told;
        String ending = ".jsonl";
        try {
            told = run(Cluster.get(), Arrays.copyOfRange(arguments, 1, arguments.length), root);
        } catch (Exception | LinkageError refused) {
            told = causes(refused);
            ending = ".error";
        }
        Files.write(root.resolve(arguments[1] + ending), told);
    }

    private static List<String> run(MiniCluster flink, String[] parts, Path root) throws Exception {
        boolean restored = !parts[3].equals("-");
        Configuration configuration = new Configuration();
        configuration.setString("state.backend.type", parts[1]);
        configuration.setString("restart-strategy.type", "none");
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createLocalEnvironment(PARALLELISM, configuration);
        env.setMaxParallelism(128);
        Queries.job(env, orders(Paths.get(parts[2])), restored);
        JobGraph graph = env.getStreamGraph().getJobGraph();
        if (restored) {
            graph.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(parts[3], false));
        }
        Told.taken();
        Orders.emitted = false;
        flink.submitJob(graph).get(LIMIT, TimeUnit.MILLISECONDS);
        if (!restored) {
            String taken = savepoint(flink, graph, root.resolve(parts[0]));
            String path = new org.apache.flink.core.fs.Path(taken).getPath();
            Files.write(root.resolve(parts[0] + ".savepoint"), Collections.singletonList(path));
            flink.cancelJob(graph.getJobID()).get(LIMIT, TimeUnit.MILLISECONDS);
        }
        JobResult result = flink.requestJobResult(graph.getJobID()).get(LIMIT, TimeUnit.MILLISECONDS);
        if (result.getSerializedThrowable().isPresent() && restored) {
            throw new IllegalStateException(
                    "Flink did not restore",
                    result.getSerializedThrowable().get().deserializeError(Continuing.class.getClassLoader()));
        }
        return Told.taken();
    }

    /** Of a job that has emitted all orders: what they changed comes before the savepoint's barrier. */
    private static String savepoint(MiniCluster flink, JobGraph graph, Path target) throws Exception {
        long limit = System.currentTimeMillis() + LIMIT;
        while (true) {
            try {
                if (Orders.emitted) {
                    String there = target.toUri().toString();
                    return flink.triggerSavepoint(graph.getJobID(), there, false, SavepointFormatType.CANONICAL)
                            .get(LIMIT, TimeUnit.MILLISECONDS);
                }
            } catch (ExecutionException early) {
                if (!early.toString().contains("required tasks are currently running")) {
                    throw early;
                }
            }
            if (System.currentTimeMillis() > limit || flink.getJobStatus(graph.getJobID()).get().isGloballyTerminalState()) {
                throw new IllegalStateException("no savepoint");
            }
            Thread.sleep(20);
        }
    }

    /** Lines of customer, product, amount, number, price, time in ms, divided by tabs; nothing for null. */
    private static List<Row> orders(Path path) throws Exception {
        List<Row> orders = new ArrayList<>();
        for (String line : Files.readAllLines(path)) {
            String[] parts = line.split("\t");
            orders.add(
                    Queries.order(
                            Long.parseLong(parts[0]),
                            parts[1],
                            Double.valueOf(parts[2]),
                            Integer.parseInt(parts[3]),
                            parts[4].isEmpty() ? null : parts[4],
                            Long.parseLong(parts[5])));
        }
        return orders;
    }

    /** The chain of causes, the root last. */
    private static List<String> causes(Throwable problem) {
        List<String> texts = new ArrayList<>();
        for (Throwable cause = problem; cause != null; cause = cause.getCause()) {
            texts.add(cause.toString().replace('\n', ' '));
        }
        return texts;
    }
}
