package benchmarks;

import fixtures.Big.Customer;
import java.util.Locale;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.state.StateBackend;
import org.apache.flink.runtime.state.StateBackendLoader;
import org.apache.flink.state.api.OperatorIdentifier;
import org.apache.flink.state.api.OperatorTransformation;
import org.apache.flink.state.api.SavepointWriter;
import org.apache.flink.state.api.StateBootstrapTransformation;
import org.apache.flink.state.api.functions.KeyedStateBootstrapFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Flink's own writer: the State Processor API bootstraps the value state of {@code make_fixtures.py --big}. Prints one
 * line of JSON: rows, seconds, rows_per_second.
 *
 * <p>Arguments: directory to write to, parallelism, how many keys, hashmap or rocksdb, records or keys, whether Flink
 * may reuse objects (its default is false). Records come whole, as rows of a DataFrame do; of keys alone customers are
 * made where they are stored, and none are sent there.
 */
public final class SpaWrite {
    private SpaWrite() {}

    public static void main(String[] arguments) throws Exception {
        int parallelism = Integer.parseInt(arguments[1]);
        long keys = Long.parseLong(arguments[2]);
        Configuration configuration = new Configuration();
        configuration.setString("rest.bind-port", "0-65000");
        configuration.setString("pipeline.object-reuse", arguments[5]);
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createLocalEnvironment(parallelism, configuration);
        configuration.setString("state.backend.type", arguments[3]);
        StateBackend backend =
                StateBackendLoader.loadStateBackendFromConfig(configuration, SpaWrite.class.getClassLoader(), null);
        OperatorIdentifier big = OperatorIdentifier.forUid("big");
        SavepointWriter writer = SavepointWriter.newSavepoint(env, backend, 128);
        if (arguments[4].equals("records")) {
            writer.withOperator(big, records(env, keys));
        } else {
            writer.withOperator(big, keys(env, keys));
        }
        writer.write(arguments[0]);
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

    private static StateBootstrapTransformation<Long> keys(StreamExecutionEnvironment env, long keys) {
        return OperatorTransformation.bootstrapWith(env.fromSequence(0, keys - 1))
                .keyBy(key -> key, Types.LONG)
                .transform(new OfKeys());
    }

    private static StateBootstrapTransformation<Record> records(StreamExecutionEnvironment env, long keys) {
        return OperatorTransformation.bootstrapWith(env.fromSequence(0, keys - 1).map(Record::of))
                .keyBy(record -> record.key, Types.LONG)
                .transform(new OfRecords());
    }

    static Customer customer(long key) {
        Customer customer = Customer.of(key);
        customer.visits = 3 * key;
        customer.amount = key * 0.5;
        return customer;
    }

    /** A key and its customer. */
    public static class Record {
        public long key;
        public Customer customer;

        static Record of(long key) {
            Record record = new Record();
            record.key = key;
            record.customer = customer(key);
            return record;
        }
    }

    /** A customer under each key, made here. */
    public static class OfKeys extends Customers<Long> {
        @Override
        public void processElement(Long key, Context context) throws Exception {
            profile.update(customer(key));
        }
    }

    /** A customer under each key, as it comes. */
    public static class OfRecords extends Customers<Record> {
        @Override
        public void processElement(Record record, Context context) throws Exception {
            profile.update(record.customer);
        }
    }

    private abstract static class Customers<T> extends KeyedStateBootstrapFunction<Long, T> {
        protected transient ValueState<Customer> profile;

        /** What Flink 2 calls, and Flink 1.20 where it is there. */
        public void open(OpenContext context) {
            profile = getRuntimeContext().getState(new ValueStateDescriptor<>("profile", Customer.class));
        }

        /** Abstract in Flink 1.20, unknown to Flink 2. */
        public void open(Configuration parameters) {}
    }
}
