package graph;

import java.io.InputStream;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** Writes below a folder what Flink prints of a job, of its REST API and as an execution plan, and takes a savepoint. */
public final class JobGraph {
    private static final String PORT = "18181";

    private JobGraph() {}

    public static void main(String[] arguments) throws Exception {
        Path folder = Paths.get(arguments[0]);
        Configuration configuration = new Configuration();
        configuration.setString("rest.bind-port", PORT);
        configuration.setString("pipeline.max-parallelism", "64");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, configuration);
        env.fromSequence(0, Long.MAX_VALUE - 1).uid("numbers").name("numbers").setParallelism(1)
                .keyBy(n -> n % 10)
                .map(new Last("count")).uid("counts").name("count per key").returns(Types.LONG)
                .map(n -> n + 1).uid("next").name("one more").returns(Types.LONG)
                .keyBy(n -> n % 10)
                .map(new Last("last")).uid("lasts").name("last per key").returns(Types.LONG).setParallelism(3)
                .sinkTo(new DiscardingSink<>()).uid("end").name("end").setParallelism(3);
        Files.write(folder.resolve("execution-plan.json"), env.getExecutionPlan().getBytes(StandardCharsets.UTF_8));
        JobClient job = env.executeAsync("graph");
        Thread.sleep(4_000);
        String jobs = "http://localhost:" + PORT + "/jobs/" + job.getJobID();
        save(jobs, folder.resolve("job.json"));
        save(jobs + "/plan", folder.resolve("plan.json"));
        String taken = job.stopWithSavepoint(false, folder.toUri().toString(), SavepointFormatType.CANONICAL).get();
        System.out.println(new org.apache.flink.core.fs.Path(taken).getPath());
        System.exit(0);
    }

    private static void save(String url, Path file) throws Exception {
        try (InputStream in = new URL(url).openStream()) {
            Files.write(file, in.readAllBytes());
        }
    }

    /** Keeps the last value of each key. */
    private static final class Last extends RichMapFunction<Long, Long> {
        private final String name;
        private transient ValueState<Long> last;

        Last(String name) {
            this.name = name;
        }

        @Override
        public void open(OpenContext context) {
            last = getRuntimeContext().getState(new ValueStateDescriptor<>(name, Types.LONG));
        }

        @Override
        public Long map(Long value) throws Exception {
            last.update(value);
            return value;
        }
    }
}
