package benchmarks;

import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Locale;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.state.StateBackendLoader;
import org.apache.flink.state.api.OperatorIdentifier;
import org.apache.flink.state.api.SavepointReader;
import org.apache.flink.state.api.functions.KeyedStateReaderFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * Flink's own reader on the savepoint of {@code make_fixtures.py --big}: the State Processor API reads every key's
 * customer and a function counts them. Prints one line of JSON: rows, seconds, rows_per_second, max_rss_bytes.
 *
 * <p>Arguments: snapshot, parallelism, how many rows to read at most (0 is all), the state backend to load it into,
 * hashmap or rocksdb, and options as NAME=VALUE.
 */
public final class SpaRead {
    private SpaRead() {}

    public static void main(String[] arguments) throws Exception {
        int parallelism = Integer.parseInt(arguments[1]);
        long limit = Long.parseLong(arguments[2]);
        Configuration configuration = new Configuration();
        configuration.setString("state.backend.type", arguments[3]);
        configuration.setString("rest.bind-port", "0-65000");
        configuration.setString("pipeline.object-reuse", "true");
        for (int i = 4; i < arguments.length; i++) {
            String[] option = arguments[i].split("=", 2);
            configuration.setString(option[0], option[1]);
        }
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createLocalEnvironment(parallelism, configuration);
        ClassLoader classes = SpaRead.class.getClassLoader();
        SavepointReader.read(
                        env, arguments[0], StateBackendLoader.loadStateBackendFromConfig(configuration, classes, null))
                .readKeyedState(
                        OperatorIdentifier.forUid("big"),
                        new Customers(limit == 0 ? Long.MAX_VALUE : limit / parallelism),
                        Types.LONG,
                        TypeInformation.of(fixtures.Big.Customer.class))
                .flatMap(new Count())
                .sinkTo(new DiscardingSink<>());
        long start = System.nanoTime();
        long rows = env.execute().getAccumulatorResult("rows");
        double seconds = (System.nanoTime() - start) / 1e9;
        System.out.println(
                String.format(
                        Locale.ROOT,
                        "{\"rows\": %d, \"seconds\": %.3f, \"rows_per_second\": %.0f, \"max_rss_bytes\": %d}",
                        rows,
                        seconds,
                        rows / seconds,
                        maxRss()));
        System.exit(0);
    }

    /** The most memory this process ever had, as Linux counts it; 0 elsewhere. */
    private static long maxRss() throws Exception {
        if (!Files.exists(Paths.get("/proc/self/status"))) {
            return 0;
        }
        for (String line : Files.readAllLines(Paths.get("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                return Long.parseLong(line.replaceAll("\\D", "")) * 1024;
            }
        }
        return 0;
    }

    /** The customer under each key; silent once it has read its share. */
    public static class Customers extends KeyedStateReaderFunction<Long, fixtures.Big.Customer> {
        private final long share;
        private transient ValueState<fixtures.Big.Customer> profile;
        private transient long read;

        public Customers(long share) {
            this.share = share;
        }

        /** What Flink 2 calls, and Flink 1.20 where it is there. */
        public void open(OpenContext context) {
            profile =
                    getRuntimeContext()
                            .getState(new ValueStateDescriptor<>("profile", fixtures.Big.Customer.class));
        }

        /** Abstract in Flink 1.20, unknown to Flink 2. */
        public void open(Configuration parameters) {}

        @Override
        public void readKey(Long key, Context context, Collector<fixtures.Big.Customer> out) throws Exception {
            if (read++ < share) {
                out.collect(profile.value());
            }
        }
    }

    /** Looks at no row, counts all. */
    public static class Count extends RichFlatMapFunction<fixtures.Big.Customer, Long> {
        private long rows;

        @Override
        public void flatMap(fixtures.Big.Customer value, Collector<Long> out) {
            rows++;
        }

        @Override
        public void close() {
            getRuntimeContext().getLongCounter("rows").add(rows);
        }
    }
}
