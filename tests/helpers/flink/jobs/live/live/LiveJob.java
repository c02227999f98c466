package live;

import commands.Commands;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.checkpoint.CheckpointStatsSnapshot;
import org.apache.flink.runtime.checkpoint.CompletedCheckpointStats;
import org.apache.flink.runtime.executiongraph.AccessExecutionGraph;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A job that goes on and takes checkpoints until it is told to stop, on a cluster in this JVM.
 *
 * <p>Arguments are name=value: keys, rate (records a second), parallelism; all else are options of Flink, among them where
 * checkpoints are, how often they are taken, and what the job is restored from. Commands are lines of the standard input:
 * `pause` and `resume` (the changes, not the checkpoints), `checkpoint`, `savepoint FORMAT DIRECTORY`,
 * `stop FORMAT DIRECTORY` (with a savepoint; Flink deletes the checkpoints), `cancel`. Lines of the standard output, tab separated, say what happens:
 * `started JOB`, `completed ID MILLIS PATH` of each checkpoint, `done RESULT` after each command, `failed CAUSE`.
 */
public final class LiveJob {
    private static final long LIMIT = 60;

    private final MiniCluster flink;
    private final JobID job;
    private long reported;

    private LiveJob(MiniCluster flink, JobID job) {
        this.flink = flink;
        this.job = job;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new TreeMap<>();
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            options.put(pair[0], pair[1]);
        }
        int keys = Integer.parseInt(options.remove("keys"));
        int rate = Integer.parseInt(options.remove("rate"));
        int parallelism = Integer.parseInt(options.remove("parallelism"));
        Configuration configuration = Configuration.fromMap(options);
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createLocalEnvironment(parallelism, configuration);
        env.setMaxParallelism(128);
        Accounts.build(env, keys, rate);
        JobGraph graph = env.getStreamGraph().getJobGraph();
        graph.setSavepointRestoreSettings(SavepointRestoreSettings.fromConfiguration(configuration));
        MiniClusterConfiguration cluster =
                new MiniClusterConfiguration.Builder()
                        .setConfiguration(configuration)
                        .setNumTaskManagers(1)
                        .setNumSlotsPerTaskManager(parallelism)
                        .build();
        try (MiniCluster flink = new MiniCluster(cluster)) {
            flink.start();
            flink.submitJob(graph).get(LIMIT, TimeUnit.SECONDS);
            say("started", graph.getJobID());
            new LiveJob(flink, graph.getJobID()).run();
        }
        System.exit(0);
    }

    private static synchronized void say(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words) {
            line.append(line.length() == 0 ? "" : "\t").append(word.toString().replaceAll("\\s+", " "));
        }
        System.out.println(line);
        System.out.flush();
    }

    /** Until the job has stopped, or nobody is there any more to stop it. */
    private void run() throws Exception {
        Thread watching = new Thread(this::watch, "watching checkpoints");
        watching.setDaemon(true);
        watching.start();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split("\t");
            try {
                String result = perform(words);
                report();
                say("done", result);
            } catch (Exception problem) {
                say("refused", Commands.cause(problem));
            }
            if (flink.getJobStatus(job).get().isGloballyTerminalState()) {
                return;
            }
        }
    }

    private String perform(String[] words) throws Exception {
        switch (words[0]) {
            case "pause":
                return "" + Accounts.Changes.pause();
            case "resume":
                Accounts.Changes.resume();
                return "";
            case "checkpoint":
                return Commands.awaited(() -> flink.triggerCheckpoint(job).get(LIMIT, TimeUnit.SECONDS));
            case "savepoint":
                return Commands.awaited(
                        () -> flink.triggerSavepoint(job, words[2], false, format(words)).get(LIMIT, TimeUnit.SECONDS));
            case "stop":
                return Commands.awaited(
                        () -> flink.stopWithSavepoint(job, words[2], false, format(words)).get(LIMIT, TimeUnit.SECONDS));
            case "cancel":
                flink.cancelJob(job).get(LIMIT, TimeUnit.SECONDS);
                while (!flink.getJobStatus(job).get().isGloballyTerminalState()) {
                    Thread.sleep(20);
                }
                return "";
            default:
                throw new IllegalArgumentException("no command " + words[0]);
        }
    }

    private static SavepointFormatType format(String[] words) {
        return SavepointFormatType.valueOf(words[1].toUpperCase());
    }

    private void watch() {
        try {
            while (true) {
                Thread.sleep(100);
                report();
                AccessExecutionGraph graph = flink.getExecutionGraph(job).get();
                if (graph.getState().isGloballyTerminalState()) {
                    if (graph.getFailureInfo() != null) {
                        say("failed", graph.getFailureInfo().getExceptionAsString());
                    }
                    return;
                }
            }
        } catch (Exception closed) {
            // The cluster has been shut down.
        }
    }

    /** Says which checkpoints have been completed since the last time, in their order. */
    private synchronized void report() throws Exception {
        CheckpointStatsSnapshot stats = flink.getExecutionGraph(job).get().getCheckpointStatsSnapshot();
        if (stats == null) {
            return;
        }
        Map<Long, CompletedCheckpointStats> completed = new TreeMap<>();
        stats.getHistory().getCheckpoints().forEach(each -> {
            if (each instanceof CompletedCheckpointStats && each.getCheckpointId() > reported) {
                completed.put(each.getCheckpointId(), (CompletedCheckpointStats) each);
            }
        });
        for (CompletedCheckpointStats each : completed.values()) {
            reported = each.getCheckpointId();
            if (!each.getProperties().isSavepoint()) {
                say("completed", reported, each.getLatestAckTimestamp(), each.getExternalPath());
            }
        }
    }
}
