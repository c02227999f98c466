package restoring;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.subscriber.KafkaSubscriber;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.LongDeserializer;

/** The Kafka connector's own source, whose broker never answers: reader and enumerator keep what they restore. */
final class Connected {
    private Connected() {}

    /** The source; `topics` has the partitions that discovery finds, as topic:partition. */
    static KafkaSource<Long> source(List<String> topics) {
        Set<TopicPartition> found = new HashSet<>();
        for (String text : topics) {
            int colon = text.lastIndexOf(':');
            found.add(new TopicPartition(text.substring(0, colon), Integer.parseInt(text.substring(colon + 1))));
        }
        return KafkaSource.<Long>builder()
                .setBootstrapServers("127.0.0.1:1")
                .setKafkaSubscriber(new Known(found))
                .setGroupId("restored")
                .setProperty("default.api.timeout.ms", "2000")
                .setProperty("request.timeout.ms", "1000")
                .setProperty("commit.offsets.on.checkpoint", "false")
                .setDeserializer(KafkaRecordDeserializationSchema.valueOnly(LongDeserializer.class))
                .build();
    }

    /** Discovers partitions without asking the broker. */
    private static final class Known implements KafkaSubscriber {
        private final Set<TopicPartition> partitions;

        Known(Set<TopicPartition> partitions) {
            this.partitions = partitions;
        }

        @Override
        public Set<TopicPartition> getSubscribedTopicPartitions(AdminClient client) {
            return partitions;
        }
    }
}
