package brokered;

import commands.Commands;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Runs jobs of the Kafka connector against a broker, one after another on a cluster in this JVM, as it is told.
 *
 * <p>The argument is the broker's address. Commands are lines of the standard input, their words separated by tabs:
 * those of {@link Broker}, and {@code run NAME PARTITIONS PARALLELISM TIMEOUT SAVEPOINT OUT}, {@code consume} with the
 * same words for a job with the consumer of Flink 1 in place of the source, {@code seen}, {@code
 * checkpoint}, {@code savepoint FORMAT DIRECTORY}, {@code pending FORMAT DIRECTORY TOPIC}, {@code cancel}. Each is answered by a line {@code done RESULT} or
 * {@code refused CAUSE}.
 */
public final class Brokered {
    private static final long LIMIT = 60;

    private final MiniCluster flink;
    private final Broker broker;
    private final String servers;
    private JobID job;

    private Brokered(MiniCluster flink, Broker broker, String servers) {
        this.flink = flink;
        this.broker = broker;
        this.servers = servers;
    }

    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("rest.port", "0");
        configuration.setString("rest.bind-port", "0-65000");
        configuration.setString("taskmanager.memory.network.min", "64mb");
        configuration.setString("taskmanager.memory.network.max", "64mb");
        configuration.setString("taskmanager.memory.managed.size", "64mb");
        MiniClusterConfiguration cluster =
                new MiniClusterConfiguration.Builder()
                        .setConfiguration(configuration)
                        .setNumTaskManagers(1)
                        .setNumSlotsPerTaskManager(4)
                        .build();
        try (MiniCluster flink = new MiniCluster(cluster);
                Broker broker = new Broker(arguments[0])) {
            flink.start();
            new Brokered(flink, broker, arguments[0]).serve();
        }
        System.exit(0);
    }

    private void serve() throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String answer;
            try {
                answer = "done\t" + perform(line.split("\t", -1));
            } catch (Exception problem) {
                answer = "refused\t" + Commands.cause(problem);
            }
            System.out.println(answer.replace("\n", " "));
            System.out.flush();
        }
    }

    private String perform(String[] words) throws Exception {
        switch (words[0]) {
            case "run":
            case "consume":
                return run(words);
            case "seen":
                if (flink.getJobStatus(job).get().isGloballyTerminalState()) {
                    throw new IllegalStateException(
                            "the job has ended",
                            flink.requestJobResult(job).get().getSerializedThrowable().get()
                                    .deserializeError(Brokered.class.getClassLoader()));
                }
                return Counting.lines();
            case "checkpoint":
                return Commands.awaited(() -> flink.triggerCheckpoint(job).get(LIMIT, TimeUnit.SECONDS));
            case "savepoint":
                SavepointFormatType format = SavepointFormatType.valueOf(words[1].toUpperCase());
                return Commands.awaited(
                        () -> flink.triggerSavepoint(job, words[2], false, format).get(LIMIT, TimeUnit.SECONDS));
            case "pending":
                return pending(words);
            case "cancel":
                flink.cancelJob(job).get(LIMIT, TimeUnit.SECONDS);
                flink.requestJobResult(job).get(LIMIT, TimeUnit.SECONDS);
                return "";
            default:
                return broker.perform(words);
        }
    }

    /** A savepoint whose transactions are not committed; the job is cancelled. */
    private String pending(String[] words) throws Exception {
        SavepointFormatType format = SavepointFormatType.valueOf(words[1].toUpperCase());
        Pending.set(Pending.WANTED);
        CompletableFuture<String> savepoint = flink.triggerSavepoint(job, words[2], false, format);
        try {
            Pending.await(Pending.TAKEN);
            broker.perform(new String[] {"produce", words[3], "0", "1"});
            String path = savepoint.get(LIMIT, TimeUnit.SECONDS);
            flink.cancelJob(job).get(LIMIT, TimeUnit.SECONDS);
            flink.requestJobResult(job).get(LIMIT, TimeUnit.SECONDS);
            return path;
        } finally {
            Pending.set(Pending.OFF);
        }
    }

    private String run(String[] words) throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("restart-strategy.type", "none");
        configuration.setString("state.backend.type", "hashmap");
        configuration.setString("execution.checkpointing.interval", "10h");
        if (!words[5].isEmpty()) {
            configuration.setString("execution.savepoint.path", words[5]);
            configuration.setString("execution.state-recovery.path", words[5]);
        }
        int parallelism = Integer.parseInt(words[3]);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(parallelism, configuration);
        env.setMaxParallelism(128);
        Counting.build(env, servers, words[1], words[2], words[4], words[6], words[0].equals("consume"));
        JobGraph graph = env.getStreamGraph().getJobGraph();
        graph.setSavepointRestoreSettings(SavepointRestoreSettings.fromConfiguration(configuration));
        job = graph.getJobID();
        flink.submitJob(graph).get(LIMIT, TimeUnit.SECONDS);
        return job.toString();
    }
}
