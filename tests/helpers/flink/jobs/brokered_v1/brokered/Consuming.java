package brokered;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.connectors.kafka.FlinkKafkaConsumer;
import org.apache.flink.streaming.connectors.kafka.KafkaDeserializationSchema;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/** The consumer of Flink 1 over the topics of some partitions, from their beginning. */
public final class Consuming {
    private Consuming() {}

    public static DataStream<String> stream(
            StreamExecutionEnvironment env, String servers, String name, Set<TopicPartition> read) {
        Set<String> topics = new TreeSet<>();
        read.forEach(partition -> topics.add(partition.topic()));
        Properties properties = new Properties();
        properties.setProperty("bootstrap.servers", servers);
        properties.setProperty("group.id", name);
        FlinkKafkaConsumer<String> consumer =
                new FlinkKafkaConsumer<>(new ArrayList<>(topics), new Places(), properties);
        consumer.setStartFromEarliest();
        consumer.setCommitOffsetsOnCheckpoints(false);
        return env.addSource(consumer).uid("consumer");
    }

    /** Where a record is. */
    static final class Places implements KafkaDeserializationSchema<String> {
        @Override
        public boolean isEndOfStream(String next) {
            return false;
        }

        @Override
        public String deserialize(ConsumerRecord<byte[], byte[]> record) {
            String value = new String(record.value(), StandardCharsets.UTF_8);
            if (!value.equals(record.topic() + "-" + record.partition())) {
                throw new IllegalStateException(value);
            }
            return record.topic() + ":" + record.partition() + ":" + record.offset();
        }

        @Override
        public TypeInformation<String> getProducedType() {
            return Types.STRING;
        }
    }
}
