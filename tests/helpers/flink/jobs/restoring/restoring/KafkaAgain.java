package restoring;

import fixtures.Json;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.connector.kafka.source.enumerator.KafkaSourceEnumState;
import org.apache.flink.connector.kafka.source.enumerator.KafkaSourceEnumStateSerializer;
import org.apache.flink.connector.kafka.source.split.KafkaPartitionSplit;
import org.apache.flink.connector.kafka.source.split.KafkaPartitionSplitSerializer;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.kafka.common.TopicPartition;

/** A source that restores as the Kafka connector does, by its serializers, and notes splits and enumerator state. */
public final class KafkaAgain implements Source<Long, KafkaPartitionSplit, KafkaSourceEnumState> {
    private final String uid;

    KafkaAgain(String uid) {
        this.uid = uid;
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.BOUNDED;
    }

    @Override
    public SimpleVersionedSerializer<KafkaPartitionSplit> getSplitSerializer() {
        return new KafkaPartitionSplitSerializer();
    }

    @Override
    public SimpleVersionedSerializer<KafkaSourceEnumState> getEnumeratorCheckpointSerializer() {
        return new KafkaSourceEnumStateSerializer();
    }

    @Override
    public SplitEnumerator<KafkaPartitionSplit, KafkaSourceEnumState> createEnumerator(
            SplitEnumeratorContext<KafkaPartitionSplit> context) {
        return new Enumerator(new KafkaSourceEnumState(Collections.emptySet(), Collections.emptySet(), false));
    }

    @Override
    public SplitEnumerator<KafkaPartitionSplit, KafkaSourceEnumState> restoreEnumerator(
            SplitEnumeratorContext<KafkaPartitionSplit> context, KafkaSourceEnumState state) {
        enumerated(state.assignedPartitions(), "ASSIGNED");
        enumerated(state.unassignedInitialPartitions(), "UNASSIGNED_INITIAL");
        return new Enumerator(state);
    }

    private void enumerated(Set<TopicPartition> partitions, String status) {
        for (TopicPartition partition : partitions) {
            Object value =
                    Json.object("topic", partition.topic(), "partition", partition.partition(), "status", status);
            Findings.operator(uid, "coordinator", "enumerator", -1, null, value);
        }
    }

    @Override
    public SourceReader<Long, KafkaPartitionSplit> createReader(SourceReaderContext context) {
        return new Reader(uid, context.getIndexOfSubtask());
    }

    /** Assigns nothing. */
    private static final class Enumerator implements SplitEnumerator<KafkaPartitionSplit, KafkaSourceEnumState> {
        private final KafkaSourceEnumState state;

        Enumerator(KafkaSourceEnumState state) {
            this.state = state;
        }

        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int subtask, String host) {}

        @Override
        public void addSplitsBack(List<KafkaPartitionSplit> splits, int subtask) {}

        @Override
        public void addReader(int subtask) {}

        @Override
        public KafkaSourceEnumState snapshotState(long checkpoint) {
            return state;
        }

        @Override
        public void close() {}
    }

    /** Emits nothing; what it is given comes from its state. */
    private static final class Reader implements SourceReader<Long, KafkaPartitionSplit> {
        private final String uid;
        private final int subtask;
        private final List<KafkaPartitionSplit> held = new ArrayList<>();

        Reader(String uid, int subtask) {
            this.uid = uid;
            this.subtask = subtask;
        }

        @Override
        public void start() {}

        @Override
        public InputStatus pollNext(ReaderOutput<Long> output) throws InterruptedException {
            if (Findings.settled()) {
                return InputStatus.END_OF_INPUT;
            }
            Thread.sleep(5);
            return InputStatus.NOTHING_AVAILABLE;
        }

        @Override
        public List<KafkaPartitionSplit> snapshotState(long checkpoint) {
            return held;
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return CompletableFuture.completedFuture(null);
        }

        @Override
        public void addSplits(List<KafkaPartitionSplit> splits) {
            held.addAll(splits);
            for (KafkaPartitionSplit split : splits) {
                Object value =
                        Json.object(
                                "topic", split.getTopic(),
                                "partition", split.getPartition(),
                                "starting_offset", split.getStartingOffset(),
                                "stopping_offset", split.getStoppingOffset().orElse(null));
                Findings.operator(uid, "SourceReaderState", "splits", subtask, null, value);
            }
        }

        @Override
        public void notifyNoMoreSplits() {}

        @Override
        public void close() {}
    }
}
