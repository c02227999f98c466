package brokered;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.FilterFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * A KafkaSource, a count of records per partition in keyed state, and a KafkaSink that delivers exactly once.
 *
 * <p>Each record becomes topic:partition:offset:count, where the count includes the record.
 */
final class Counting {
    private static final List<String> LINES = new ArrayList<>();

    private Counting() {}

    /** What the running job has read so far. */
    static String lines() {
        synchronized (LINES) {
            return String.join(",", LINES);
        }
    }

    private static void add(String line) {
        synchronized (LINES) {
            LINES.add(line);
        }
    }

    static void build(
            StreamExecutionEnvironment env,
            String servers,
            String name,
            String partitions,
            String timeout,
            String out,
            boolean consumes)
            throws Exception {
        synchronized (LINES) {
            LINES.clear();
        }
        Set<TopicPartition> read = new HashSet<>();
        for (String text : partitions.split(",")) {
            int colon = text.lastIndexOf(':');
            read.add(new TopicPartition(text.substring(0, colon), Integer.parseInt(text.substring(colon + 1))));
        }
        SingleOutputStreamOperator<String> counted =
                (consumes ? consumed(env, servers, name, read) : read(env, servers, name, read))
                        .keyBy(new ByPartition(), Types.STRING)
                        .process(new Counts())
                        .uid("counts");
        if (!out.isEmpty()) {
            KafkaSink<String> sink = sink(servers, name, timeout, out);
            counted.sinkTo(sink).uid("sink");
            // A task of its own, whose part of a savepoint comes last.
            counted.rebalance().filter(new Last()).uid("last");
        }
    }

    private static DataStream<String> read(
            StreamExecutionEnvironment env, String servers, String name, Set<TopicPartition> read) {
        KafkaSource<String> source =
                KafkaSource.<String>builder()
                        .setBootstrapServers(servers)
                        .setPartitions(read)
                        .setGroupId(name)
                        .setStartingOffsets(OffsetsInitializer.earliest())
                        .setProperty("commit.offsets.on.checkpoint", "false")
                        .setDeserializer(new Places())
                        .build();
        return env.fromSource(source, WatermarkStrategy.noWatermarks(), "source").uid("source");
    }

    /** The consumer, which later releases do not have. */
    @SuppressWarnings("unchecked")
    private static DataStream<String> consumed(
            StreamExecutionEnvironment env, String servers, String name, Set<TopicPartition> read) throws Exception {
        return (DataStream<String>) Class.forName("brokered.Consuming")
                .getMethod("stream", StreamExecutionEnvironment.class, String.class, String.class, Set.class)
                .invoke(null, env, servers, name, read);
    }

    private static KafkaSink<String> sink(String servers, String name, String timeout, String out) {
        return KafkaSink.<String>builder()
                .setBootstrapServers(servers)
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix(name)
                .setProperty("transaction.timeout.ms", timeout)
                .setRecordSerializer(
                        KafkaRecordSerializationSchema.builder()
                                .setTopic(out)
                                .setValueSerializationSchema(new SimpleStringSchema())
                                .build())
                .build();
    }

    /** Where a record is. */
    static final class Places implements KafkaRecordDeserializationSchema<String> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<String> out) {
            String value = new String(record.value(), StandardCharsets.UTF_8);
            if (!value.equals(record.topic() + "-" + record.partition())) {
                throw new IllegalStateException(value);
            }
            out.collect(record.topic() + ":" + record.partition() + ":" + record.offset());
        }

        @Override
        public TypeInformation<String> getProducedType() {
            return Types.STRING;
        }
    }

    static final class ByPartition implements KeySelector<String, String> {
        @Override
        public String getKey(String line) {
            return line.substring(0, line.lastIndexOf(':'));
        }
    }

    /**
     * Counts records per partition.
     *
     * <p>While a savepoint is {@link Pending}, its task stays with the first record after its own part of the savepoint: it
     * never hears that the savepoint is complete, and the committer in the same task does not commit.
     */
    static final class Counts extends KeyedProcessFunction<String, String, String> implements CheckpointedFunction {
        @Override
        public void initializeState(FunctionInitializationContext context) {}

        @Override
        public void snapshotState(FunctionSnapshotContext context) {
            Pending.reach(Pending.TAKEN);
        }

        @Override
        public void processElement(String line, Context context, Collector<String> out) throws Exception {
            if (Pending.is(Pending.TAKEN)) {
                Pending.reach(Pending.STUCK);
                Thread.sleep(Long.MAX_VALUE);
            }
            ValueState<Long> count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
            count.update(count.value() == null ? 1 : count.value() + 1);
            String counted = line + ":" + count.value();
            add(counted);
            out.collect(counted);
        }
    }

    /** Takes its part of a pending savepoint when the count's task is stuck. */
    static final class Last implements FilterFunction<String>, CheckpointedFunction {
        @Override
        public void initializeState(FunctionInitializationContext context) {}

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            if (!Pending.is(Pending.OFF)) {
                Pending.await(Pending.STUCK);
            }
        }

        @Override
        public boolean filter(String line) {
            return false;
        }
    }
}
