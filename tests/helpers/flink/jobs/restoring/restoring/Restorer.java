package restoring;

import fixtures.Cluster;
import fixtures.Json;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.flink.api.common.JobID;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobmaster.JobResult;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Restores savepoints and reads all of their state back, one job after another on one cluster inside this JVM.
 *
 * <p>Arguments: a file with a JSON list of {@link Spec}, and a directory. For each spec, backend and parallelism
 * DIRECTORY/name/backend-parallelism.jsonl holds what was found, or ….error why Flink refused (the chain of causes),
 * and ….savepoint where a retaken savepoint is; header.jsonl (or .error) says what Flink finds of the serializers.
 */
public final class Restorer {
    private static final long LIMIT = 60_000;

    private Restorer() {}

    public static void main(String[] arguments) throws Exception {
        List<Spec> specs = Spec.read(new String(Files.readAllBytes(Paths.get(arguments[0])), "UTF-8"));
        Path root = Paths.get(arguments[1]);
        MiniCluster flink = Cluster.get();
        for (Spec spec : specs) {
            long start = System.currentTimeMillis();
            Path home = Files.createDirectories(root.resolve(spec.name));
            write(home.resolve("header"), () -> headers(spec));
            for (String backend : spec.backends) {
                for (int parallelism : spec.parallelisms) {
                    Path path = home.resolve(backend + "-" + parallelism);
                    write(path, () -> run(flink, spec, backend, parallelism, path));
                }
            }
            System.out.println(spec.name + " " + (System.currentTimeMillis() - start) + " ms");
        }
    }

    /** What finds lines, or fails. */
    private interface Finding {
        List<String> lines() throws Exception;
    }

    private static void write(Path path, Finding finding) throws Exception {
        try {
            Files.write(path.resolveSibling(path.getFileName() + ".jsonl"), finding.lines());
        } catch (Exception | LinkageError problem) {
            List<String> text = Collections.singletonList(Json.of(causes(problem)));
            Files.write(path.resolveSibling(path.getFileName() + ".error"), text);
            System.out.println(path.getFileName() + " FAILED");
        }
    }

    /** The chain of causes, the root last. */
    private static List<String> causes(Throwable problem) {
        List<String> texts = new ArrayList<>();
        for (Throwable cause = problem; cause != null; cause = cause.getCause()) {
            texts.add(cause.toString());
        }
        return texts;
    }

    private static List<String> headers(Spec spec) throws Exception {
        StreamExecutionEnvironment env = environment(spec, "hashmap", 1);
        return Headers.compared(spec, Job.ids(Job.graph(env, spec), spec), env.getConfig().getSerializerConfig());
    }

    private static StreamExecutionEnvironment environment(Spec spec, String backend, int parallelism) {
        return StreamExecutionEnvironment.createLocalEnvironment(parallelism, Job.configuration(spec, backend));
    }

    private static List<String> run(MiniCluster flink, Spec spec, String backend, int parallelism, Path path)
            throws Exception {
        Findings.begin(Job.readers(spec, parallelism), backend, spec.retake != null);
        JobGraph graph = Job.graph(environment(spec, backend, parallelism), spec);
        JobID job = graph.getJobID();
        flink.submitJob(graph).get(LIMIT, TimeUnit.MILLISECONDS);
        try {
            if (spec.retake != null) {
                retake(flink, job, spec.retake, path);
            }
            if (spec.retake != null && spec.retake.equals("checkpoint")) {
                // A job that ends by itself takes its checkpoints with it.
                flink.cancelJob(job).get(LIMIT, TimeUnit.MILLISECONDS);
                flink.requestJobResult(job).get(LIMIT, TimeUnit.MILLISECONDS);
                return Findings.lines();
            }
            JobResult result = flink.requestJobResult(job).get(LIMIT, TimeUnit.MILLISECONDS);
            if (!result.isSuccess()) {
                throw new IllegalStateException(
                        "Flink did not restore",
                        result.getSerializedThrowable().get().deserializeError(Restorer.class.getClassLoader()));
            }
        } catch (TimeoutException stuck) {
            flink.cancelJob(job).get(LIMIT, TimeUnit.MILLISECONDS);
            throw new IllegalStateException("the restored job did not end", stuck);
        }
        return Findings.lines();
    }

    /**
     * Has Flink take a savepoint, or two checkpoints one after another, of what it has restored, before any timer
     * fires; a job that failed has none.
     */
    private static void retake(MiniCluster flink, JobID job, String format, Path path) throws Exception {
        long limit = System.currentTimeMillis() + LIMIT;
        String target = Files.createDirectories(path).toAbsolutePath().toString();
        while (!flink.getJobStatus(job).get().isGloballyTerminalState()) {
            try {
                if (Findings.allOpened()) {
                    String taken = taken(flink, job, format, target);
                    Path told = path.resolveSibling(path.getFileName() + ".savepoint");
                    Files.write(told, Collections.singletonList(new org.apache.flink.core.fs.Path(taken).getPath()));
                    Findings.letGo();
                    return;
                }
            } catch (ExecutionException refused) {
                if (!refused.toString().contains("required tasks are currently running")) {
                    throw new IllegalStateException("Flink restored, but did not take a savepoint", refused);
                }
            }
            if (System.currentTimeMillis() > limit) {
                throw new TimeoutException("no savepoint");
            }
            Thread.sleep(20);
        }
    }

    private static String taken(MiniCluster flink, JobID job, String format, String target) throws Exception {
        if (format.equals("checkpoint")) {
            flink.triggerCheckpoint(job).get(LIMIT, TimeUnit.MILLISECONDS);
            return flink.triggerCheckpoint(job).get(LIMIT, TimeUnit.MILLISECONDS);
        }
        SavepointFormatType type = SavepointFormatType.valueOf(format.toUpperCase(Locale.ROOT));
        return flink.triggerSavepoint(job, target, false, type).get(LIMIT, TimeUnit.MILLISECONDS);
    }
}
