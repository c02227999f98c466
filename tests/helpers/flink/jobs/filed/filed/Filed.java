package filed;

import commands.Commands;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.core.fs.Path;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;
import org.apache.flink.streaming.api.functions.source.RichParallelSourceFunction;

/**
 * A job with a FileSink whose files end with a checkpoint, run once per pair of arguments: the savepoint that it is
 * restored from (empty: it writes lines), and the directory of the savepoint that it takes, whose path is printed.
 *
 * <p>The first argument is the sink's directory.
 */
public final class Filed {
    private static final int SUBTASKS = 2;
    private static final int LINES = 50;
    private static final AtomicInteger DONE = new AtomicInteger();

    private Filed() {}

    public static void main(String[] arguments) throws Exception {
        MiniClusterConfiguration cluster =
                new MiniClusterConfiguration.Builder().setNumTaskManagers(1).setNumSlotsPerTaskManager(SUBTASKS).build();
        try (MiniCluster flink = new MiniCluster(cluster)) {
            flink.start();
            for (int at = 1; at < arguments.length; at += 2) {
                System.out.println(run(flink, arguments[0], arguments[at], arguments[at + 1]));
            }
        }
        System.exit(0);
    }

    private static String run(MiniCluster flink, String out, String restored, String target) throws Exception {
        DONE.set(0);
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createLocalEnvironment(SUBTASKS, new Configuration());
        env.addSource(new Lines(restored.isEmpty())).uid("lines")
                .sinkTo(
                        FileSink.forRowFormat(new Path(out), new SimpleStringEncoder<String>())
                                .withRollingPolicy(OnCheckpointRollingPolicy.build())
                                .build())
                .uid("files");
        JobGraph graph = env.getStreamGraph().getJobGraph();
        if (!restored.isEmpty()) {
            graph.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(restored, true));
        }
        flink.submitJob(graph).get(60, TimeUnit.SECONDS);
        while (DONE.get() < SUBTASKS) {
            if (flink.getJobStatus(graph.getJobID()).get().isGloballyTerminalState()) {
                throw new IllegalStateException(flink.requestJobResult(graph.getJobID()).get().toString());
            }
            Thread.sleep(20);
        }
        String path = Commands.awaited(
                () -> flink.triggerSavepoint(graph.getJobID(), target, false, SavepointFormatType.CANONICAL)
                        .get(60, TimeUnit.SECONDS));
        flink.cancelJob(graph.getJobID()).get(60, TimeUnit.SECONDS);
        flink.requestJobResult(graph.getJobID()).get(60, TimeUnit.SECONDS);
        return path;
    }

    /** Emits lines, and then waits. */
    static final class Lines extends RichParallelSourceFunction<String> {
        private final boolean emits;
        private volatile boolean runs = true;

        Lines(boolean emits) {
            this.emits = emits;
        }

        @Override
        public void run(SourceContext<String> out) throws Exception {
            synchronized (out.getCheckpointLock()) {
                int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
                for (int at = 0; emits && at < LINES; at++) {
                    out.collect(subtask + ":" + at);
                }
                DONE.incrementAndGet();
            }
            while (runs) {
                Thread.sleep(10);
            }
        }

        @Override
        public void cancel() {
            runs = false;
        }
    }
}
