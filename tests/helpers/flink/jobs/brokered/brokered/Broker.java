package brokered;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What a test does with a broker: {@code create TOPIC PARTITIONS}, {@code produce TOPIC PARTITION COUNT}, {@code delete
 * TOPIC PARTITION BEFORE}, {@code commit GROUP TOPIC PARTITION OFFSET}, and {@code committed TOPIC}: the values in
 * partition 0 up to the first open transaction.
 */
final class Broker implements AutoCloseable {
    private final String servers;
    private final AdminClient admin;
    private final KafkaProducer<byte[], byte[]> producer;

    Broker(String servers) {
        this.servers = servers;
        this.admin = AdminClient.create(properties());
        this.producer = new KafkaProducer<>(properties(), new ByteArraySerializer(), new ByteArraySerializer());
    }

    private Properties properties() {
        Properties properties = new Properties();
        properties.setProperty("bootstrap.servers", servers);
        return properties;
    }

    String perform(String[] words) throws Exception {
        switch (words[0]) {
            case "create":
                NewTopic topic = new NewTopic(words[1], Integer.parseInt(words[2]), (short) 1);
                admin.createTopics(Collections.singleton(topic)).all().get();
                return "";
            case "produce":
                return produce(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            case "delete":
                RecordsToDelete before = RecordsToDelete.beforeOffset(Long.parseLong(words[3]));
                admin.deleteRecords(Collections.singletonMap(partition(words[1], words[2]), before)).all().get();
                return "";
            case "commit":
                OffsetAndMetadata offset = new OffsetAndMetadata(Long.parseLong(words[4]));
                admin.alterConsumerGroupOffsets(
                                words[1], Collections.singletonMap(partition(words[2], words[3]), offset))
                        .all()
                        .get();
                return "";
            case "committed":
                return committed(words[1]);
            default:
                throw new IllegalArgumentException("no command " + words[0]);
        }
    }

    private static TopicPartition partition(String topic, String number) {
        return new TopicPartition(topic, Integer.parseInt(number));
    }

    /** The offset after the last record. */
    private String produce(String topic, int partition, int count) throws Exception {
        long last = -1;
        for (int number = 0; number < count; number++) {
            byte[] value = (topic + "-" + partition).getBytes(StandardCharsets.UTF_8);
            last = producer.send(new ProducerRecord<>(topic, partition, null, value)).get().offset();
        }
        return "" + (last + 1);
    }

    private String committed(String topic) {
        Properties properties = properties();
        properties.setProperty("isolation.level", "read_committed");
        TopicPartition partition = new TopicPartition(topic, 0);
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(Collections.singleton(partition));
            consumer.seekToBeginning(Collections.singleton(partition));
            long end = consumer.endOffsets(Collections.singleton(partition)).get(partition);
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(100))) {
                    values.add(new String(each.value(), StandardCharsets.UTF_8));
                }
            }
        }
        return String.join(",", values);
    }

    @Override
    public void close() {
        producer.close();
        admin.close();
    }
}
