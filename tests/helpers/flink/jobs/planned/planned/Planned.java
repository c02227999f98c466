package planned;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Collections;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.CompiledPlan;
import org.apache.flink.table.api.PlanReference;
import org.apache.flink.table.api.bridge.java.StreamStatementSet;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * Compiles the statements of each folder of ROOT to a plan, runs the job of this plan, and takes a savepoint when the
 * sources idle: job.sql → plan.json, snapshot.path, native.path.
 */
public final class Planned {
    private static final long LIMIT = 120_000;

    private Planned() {}

    public static void main(String[] arguments) throws Exception {
        int failed = 0;
        for (String argument : arguments) {
            Path home = Paths.get(argument);
            try {
                run(home);
                System.out.println(home.getFileName());
            } catch (Throwable problem) {
                failed++;
                System.out.println(home.getFileName() + " FAILED");
                problem.printStackTrace(System.out);
            }
        }
        System.exit(failed == 0 ? 0 : 1);
    }

    private static void run(Path home) throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("rest.bind-port", "0-65000");
        configuration.setString("restart-strategy.type", "none");
        configuration.setString("state.backend.type", home.toString().endsWith("mini-batch") ? "rocksdb" : "hashmap");
        configuration.setString("taskmanager.memory.network.min", "256mb");
        configuration.setString("taskmanager.memory.network.max", "256mb");
        configuration.setString("taskmanager.memory.managed.size", "64mb");
        configuration.setString("state.storage.fs.memory-threshold", "1mb");
        configuration.setString("execution.checkpointing.data-inline-threshold", "1mb");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1, configuration);
        env.setMaxParallelism(8);
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        tables.getConfig().set("table.local-time-zone", "UTC");
        StreamStatementSet all = tables.createStatementSet();
        String script = new String(Files.readAllBytes(home.resolve("job.sql")), StandardCharsets.UTF_8);
        for (String statement : script.split(";\\s*\n")) {
            if (statement.startsWith("SET ")) {
                String[] setting = statement.split("'", -1);
                tables.getConfig().set(setting[1], setting[3]);
            } else if (statement.startsWith("INSERT")) {
                all.addInsertSql(statement);
            } else if (!statement.trim().isEmpty()) {
                tables.executeSql(statement.replace("{home}", home.toString()));
            }
        }
        Path plan = home.resolve("plan.json");
        Files.write(plan, all.compilePlan().asJsonString().getBytes(StandardCharsets.UTF_8));
        CompiledPlan compiled = tables.loadPlan(PlanReference.fromFile(plan));
        RowsSource.PLANNED.set(0);
        RowsSource.ENDED.set(0);
        JobClient job = compiled.execute().getJobClient().get();
        await(job);
        savepoint(job, home, "snapshot", SavepointFormatType.CANONICAL);
        savepoint(job, home, "native", SavepointFormatType.NATIVE);
        job.cancel().get(LIMIT, TimeUnit.MILLISECONDS);
    }

    private static void savepoint(JobClient job, Path home, String name, SavepointFormatType format) throws Exception {
        String target = Files.createDirectories(home.resolve(name)).toUri().toString();
        String taken = job.triggerSavepoint(target, format).get(LIMIT, TimeUnit.MILLISECONDS);
        String path = new org.apache.flink.core.fs.Path(taken).getPath();
        Files.write(home.resolve(name + ".path"), Collections.singletonList(path));
    }

    private static void await(JobClient job) throws Exception {
        long limit = System.currentTimeMillis() + LIMIT;
        while (RowsSource.ENDED.get() < RowsSource.PLANNED.get()) {
            JobStatus status = job.getJobStatus().get();
            if (System.currentTimeMillis() > limit || status.isGloballyTerminalState()) {
                job.getJobExecutionResult().get(1, TimeUnit.SECONDS);
                throw new IllegalStateException("the job is " + status);
            }
            Thread.sleep(50);
        }
        Thread.sleep(4000);
    }
}
