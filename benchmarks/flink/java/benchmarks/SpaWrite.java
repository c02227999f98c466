package benchmarks;

import java.util.Locale;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.state.hashmap.HashMapStateBackend;
import org.apache.flink.state.api.OperatorIdentifier;
import org.apache.flink.state.api.OperatorTransformation;
import org.apache.flink.state.api.SavepointWriter;
import org.apache.flink.state.api.StateBootstrapTransformation;
import org.apache.flink.state.api.functions.KeyedStateBootstrapFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Flink's own writer: the State Processor API bootstraps the value state of {@code make_fixtures.py --big}, whose
 * customers are made while they are written. Prints one line of JSON: rows, seconds, rows_per_second.
 *
 * <p>Arguments: directory to write to, parallelism, how many keys.
 */
public final class SpaWrite {
    private SpaWrite() {}

    public static void main(String[] arguments) throws Exception {
        int parallelism = Integer.parseInt(arguments[1]);
        long keys = Long.parseLong(arguments[2]);
        Configuration configuration = new Configuration();
        configuration.setString("rest.bind-port", "0-65000");
        configuration.setString("pipeline.object-reuse", "true");
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createLocalEnvironment(parallelism, configuration);
        StateBootstrapTransformation<Long> customers =
                OperatorTransformation.bootstrapWith(env.fromSequence(0, keys - 1))
                        .keyBy(key -> key, Types.LONG)
                        .transform(new Customers());
        SavepointWriter.newSavepoint(env, new HashMapStateBackend(), 128)
                .withOperator(OperatorIdentifier.forUid("big"), customers)
                .write(arguments[0]);
        long start = System.nanoTime();
        env.execute();
        double seconds = (System.nanoTime() - start) / 1e9;
        System.out.println(
                String.format(
                        Locale.ROOT,
                        "{\"rows\": %d, \"seconds\": %.3f, \"rows_per_second\": %.0f}",
                        keys,
                        seconds,
                        keys / seconds));
        System.exit(0);
    }

    /** A customer under each key. */
    public static class Customers extends KeyedStateBootstrapFunction<Long, Long> {
        private transient ValueState<fixtures.Big.Customer> profile;

        @Override
        public void open(Configuration parameters) {
            profile =
                    getRuntimeContext()
                            .getState(new ValueStateDescriptor<>("profile", fixtures.Big.Customer.class));
        }

        @Override
        public void processElement(Long key, Context context) throws Exception {
            fixtures.Big.Customer customer = fixtures.Big.Customer.of(key);
            customer.visits = 3 * key;
            customer.amount = key * 0.5;
            profile.update(customer);
        }
    }
}
