package planned;

import fixtures.Cluster;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Collections;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.PlanReference;
import org.apache.flink.table.api.bridge.java.StreamStatementSet;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.api.internal.TableEnvironmentImpl;

/**
 * Runs the lines of a file, one after another, their parts divided by tabs.
 *
 * <p>compile SCRIPT PLAN; run PLAN SCRIPT BACKEND OUT SAVEPOINT TAKEN: runs the job of a plan, with the tables of its
 * script, from a savepoint (or -) until the sources idle; what sinks print is in OUT, and below TAKEN (or -) are a
 * canonical and a native savepoint, whose paths are in OUT.canonical and OUT.native. A run that fails writes OUT.error.
 * Below - is a native one only: where state is asynchronous, Flink 2.3 has no canonical ones.
 */
public final class Evolving {
    private static final long LIMIT = 120_000;

    private Evolving() {}

    public static void main(String[] arguments) throws Exception {
        for (String line : Files.readAllLines(Paths.get(arguments[0]))) {
            String[] parts = line.split("\t");
            if (parts[0].equals("compile")) {
                Configuration configuration = configuration("hashmap", "-");
                Tables tables = tables(parts[1], StreamExecutionEnvironment.getExecutionEnvironment(configuration), true);
                numberFromOne(tables.environment);
                String plan = tables.all.compilePlan().asJsonString();
                Files.write(Paths.get(parts[2]), plan.getBytes(StandardCharsets.UTF_8));
                continue;
            }
            PrintStream console = System.out;
            try (PrintStream out = new PrintStream(new FileOutputStream(parts[4]), true, "UTF-8")) {
                System.setOut(out);
                run(parts);
            } catch (Exception problem) {
                StringBuilder text = new StringBuilder();
                for (Throwable cause = problem; cause != null; cause = cause.getCause()) {
                    text.append(cause).append('\n');
                }
                Files.write(Paths.get(parts[4] + ".error"), text.toString().getBytes(StandardCharsets.UTF_8));
            } finally {
                System.setOut(console);
            }
        }
    }

    private static void run(String[] parts) throws Exception {
        MiniCluster flink = Cluster.get();
        URI rest = flink.getRestAddress().get();
        Configuration configuration = configuration(parts[3], parts[5]);
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createRemoteEnvironment(rest.getHost(), rest.getPort(), configuration);
        Tables tables = tables(parts[2], env, false);
        RowsSource.PLANNED.set(0);
        RowsSource.ENDED.set(0);
        PlanReference plan = PlanReference.fromFile(Paths.get(parts[1]));
        JobID job = tables.environment.loadPlan(plan).execute().getJobClient().get().getJobID();
        try {
            long limit = System.currentTimeMillis() + LIMIT;
            while (RowsSource.ENDED.get() < RowsSource.PLANNED.get()) {
                JobStatus status = flink.getJobStatus(job).get();
                if (status.isGloballyTerminalState()) {
                    flink.requestJobResult(job).get().toJobExecutionResult(Evolving.class.getClassLoader());
                }
                if (System.currentTimeMillis() > limit || status.isGloballyTerminalState()) {
                    throw new IllegalStateException("the job is " + status);
                }
                Thread.sleep(20);
            }
            // What the sources emitted is with the sinks before a savepoint's barrier.
            Path taken = Paths.get(parts[6].equals("-") ? parts[4] + ".last" : parts[6]);
            savepoint(flink, job, taken, parts[4] + ".native", SavepointFormatType.NATIVE);
            if (!parts[6].equals("-")) {
                savepoint(flink, job, taken, parts[4] + ".canonical", SavepointFormatType.CANONICAL);
            }
        } finally {
            Cluster.end(job);
        }
    }

    private static void savepoint(MiniCluster flink, JobID job, Path folder, String file, SavepointFormatType format)
            throws Exception {
        String target = Files.createDirectories(folder).toUri().toString();
        long limit = System.currentTimeMillis() + LIMIT;
        while (true) {
            try {
                String taken = flink.triggerSavepoint(job, target, false, format).get(LIMIT, TimeUnit.MILLISECONDS);
                String path = new org.apache.flink.core.fs.Path(taken).getPath();
                Files.write(Paths.get(file), Collections.singletonList(path));
                return;
            } catch (ExecutionException early) {
                // A source may end before all other tasks run.
                boolean isEarly = early.toString().contains("required tasks are currently running");
                if (!isEarly || System.currentTimeMillis() > limit) {
                    throw early;
                }
                Thread.sleep(50);
            }
        }
    }

    private static Configuration configuration(String backend, String savepoint) {
        Configuration configuration = new Configuration();
        configuration.setString("parallelism.default", "1");
        configuration.setString("pipeline.max-parallelism", "128");
        configuration.setString("restart-strategy.type", "none");
        configuration.setString("state.backend.type", backend);
        // As Flink 1.15 and 1.16 call them.
        configuration.setString("restart-strategy", "none");
        configuration.setString("state.backend", backend);
        configuration.setString("table.local-time-zone", "UTC");
        if (!savepoint.equals("-")) {
            configuration.setString("execution.state-recovery.path", savepoint);
            configuration.setString("execution.savepoint.path", savepoint);
        }
        return configuration;
    }

    /** Nodes of plans are numbered on and on by a JVM, whichever plan they are of. */
    private static void numberFromOne(StreamTableEnvironment environment) throws Exception {
        ClassLoader planner = ((TableEnvironmentImpl) environment).getPlanner().getClass().getClassLoader();
        Class.forName("org.apache.flink.table.planner.plan.nodes.exec.ExecNodeContext", true, planner)
                .getMethod("resetIdCounter")
                .invoke(null);
    }

    /** With the statements that fill sinks, or without: what they are is in the plan. */
    private static Tables tables(String script, StreamExecutionEnvironment env, boolean withInserts) throws Exception {
        Tables made = new Tables();
        made.environment = StreamTableEnvironment.create(env);
        made.all = made.environment.createStatementSet();
        String text = new String(Files.readAllBytes(Paths.get(script)), StandardCharsets.UTF_8);
        for (String statement : text.split(";\\s*\n")) {
            if (statement.startsWith("SET ")) {
                String[] setting = statement.split("'", -1);
                made.environment.getConfig().set(setting[1], setting[3]);
            } else if (statement.startsWith("INSERT")) {
                if (withInserts) {
                    made.all.addInsertSql(statement);
                }
            } else if (!statement.trim().isEmpty()) {
                made.environment.executeSql(statement);
            }
        }
        return made;
    }

    private static final class Tables {
        private StreamTableEnvironment environment;
        private StreamStatementSet all;
    }
}
