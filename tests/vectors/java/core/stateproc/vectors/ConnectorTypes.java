package stateproc.vectors;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/** State of the Kafka connector: the old producer's serializers, and the versioned forms of source and sink. */
final class ConnectorTypes {
    private static final String PRODUCER = "org.apache.flink.streaming.connectors.kafka.FlinkKafkaProducer$";
    private static final String KAFKA = "org.apache.flink.connector.kafka.";

    private ConnectorTypes() {}

    static void write(Vectors vectors) {
        vectors.attempt("Kafka transaction", () -> vectors.addPairs("Kafka transaction",
                Reflect.create(PRODUCER + "TransactionStateSerializer"),
                Reflect.create(PRODUCER + "KafkaTransactionState", "é-1", 77L, (short) 3, null),
                transaction("é-1", 77L, 3),
                Reflect.create(PRODUCER + "KafkaTransactionState", null, -1L, (short) -1, null),
                transaction(null, -1L, -1)));
        vectors.attempt("Kafka context", () -> vectors.addPairs("Kafka context",
                Reflect.create(PRODUCER + "ContextStateSerializer"),
                Reflect.create(PRODUCER + "KafkaTransactionContext", new LinkedHashSet<>(Arrays.asList("a", "é"))), Arrays.asList("a", "é"),
                Reflect.create(PRODUCER + "KafkaTransactionContext", new LinkedHashSet<>()), new ArrayList<>()));
        vectors.attempt("Kafka id hint", () -> vectors.addPairs("Kafka id hint",
                Reflect.create(PRODUCER + "NextTransactionalIdHintSerializer"),
                Reflect.create(PRODUCER + "NextTransactionalIdHint", 4, 99L),
                Json.object("lastParallelism", 4, "nextFreeTransactionalId", 99)));
        List<Object> versioned = new ArrayList<>();
        vectors.attempt("Kafka split", () -> splits(versioned));
        vectors.attempt("Kafka enumerator", () -> enumerators(versioned));
        vectors.attempt("Kafka committable", () -> add(versioned, KAFKA + "sink.KafkaCommittableSerializer",
                Reflect.create(KAFKA + (Reflect.exists(KAFKA + "sink.internal.KafkaCommittable") ? "sink.internal." : "sink.") + "KafkaCommittable",
                        7L, (short) 2, "prefix-0-1", null),
                Json.object("producerId", 7, "epoch", 2, "transactionalId", "prefix-0-1")));
        vectors.attempt("Kafka writer", () -> writers(versioned));
        if (!versioned.isEmpty()) {
            vectors.document.put("versioned", versioned);
        }
    }

    private static Object transaction(String id, long producer, int epoch) {
        return Json.object("transactionalId", id, "producerId", producer, "epoch", epoch);
    }

    private static Object partition(String topic, int partition) throws Exception {
        return Reflect.create("org.apache.kafka.common.TopicPartition", topic, partition);
    }

    private static void splits(List<Object> versioned) throws Exception {
        String split = KAFKA + "source.split.KafkaPartitionSplit";
        for (long stop : new long[] {Long.MIN_VALUE, 1000L}) {
            add(versioned, split + "Serializer", Reflect.create(split, partition("orders é", 3), 42L, stop),
                    Json.object("topic", "orders é", "partition", 3, "startingOffset", 42, "stoppingOffset", stop));
        }
        add(versioned, split + "Serializer", Reflect.create(split, partition("t", 0), -2L),
                Json.object("topic", "t", "partition", 0, "startingOffset", -2, "stoppingOffset", Long.MIN_VALUE));
    }

    private static void enumerators(List<Object> versioned) throws Exception {
        String state = KAFKA + "source.enumerator.KafkaSourceEnumState";
        Object assigned = partition("a", 0);
        Object waiting = partition("b", 1);
        Set<Object> one = new LinkedHashSet<>(Arrays.asList(assigned));
        Set<Object> two = new LinkedHashSet<>(Arrays.asList(waiting));
        Object value;
        Object tree = Json.object("assigned", Arrays.asList(Json.object("topic", "a", "partition", 0)),
                "unassigned", Arrays.asList(Json.object("topic", "b", "partition", 1)), "initialDiscoveryFinished", true);
        if (Reflect.exists(KAFKA + "source.enumerator.SplitAndAssignmentStatus")) {
            String split = KAFKA + "source.split.KafkaPartitionSplit";
            Object[] statuses = Class.forName(KAFKA + "source.enumerator.AssignmentStatus").getEnumConstants();
            Set<Object> all = new LinkedHashSet<>(Arrays.asList(
                    (Object) Reflect.create(KAFKA + "source.enumerator.SplitAndAssignmentStatus", Reflect.create(split, assigned, 5L), statuses[0]),
                    Reflect.create(KAFKA + "source.enumerator.SplitAndAssignmentStatus", Reflect.create(split, waiting, 6L), statuses[1])));
            value = Reflect.create(state, all, true);
            tree = Json.object("splits", Arrays.asList(
                    Json.object("topic", "a", "partition", 0, "startingOffset", 5, "stoppingOffset", Long.MIN_VALUE, "status", statuses[0].toString()),
                    Json.object("topic", "b", "partition", 1, "startingOffset", 6, "stoppingOffset", Long.MIN_VALUE, "status", statuses[1].toString())),
                    "initialDiscoveryFinished", true);
        } else {
            try {
                value = Reflect.create(state, one, two, true);
            } catch (NoSuchMethodException before118) {
                value = Reflect.create(state, one);
                tree = Json.object("assigned", Arrays.asList(Json.object("topic", "a", "partition", 0)));
            }
        }
        add(versioned, state + "Serializer", value, tree);
    }

    private static void writers(List<Object> versioned) throws Exception {
        String sink = KAFKA + "sink.";
        String internal = sink + "internal.";
        Object value;
        Object tree = Json.object("transactionalIdPrefix", "prefix é");
        if (Reflect.exists(internal + "CheckpointTransaction")) {
            Object ownership = Class.forName(internal + "TransactionOwnership").getEnumConstants()[0];
            Object transaction = Reflect.create(internal + "CheckpointTransaction", "id-1", 5L);
            value = Reflect.create(sink + "KafkaWriterState", "prefix é", 1, 2, ownership, Arrays.asList(transaction));
            tree = Json.object("transactionalIdPrefix", "prefix é", "ownedSubtaskId", 1, "totalNumberOfOwnedSubtasks", 2,
                    "transactionOwnership", ownership.toString(), "precommittedTransactionalIds",
                    Arrays.asList(Json.object("transactionalId", "id-1", "checkpointId", 5)));
        } else {
            value = Reflect.create(sink + "KafkaWriterState", "prefix é");
        }
        add(versioned, sink + "KafkaWriterStateSerializer", value, tree);
    }

    /** What SimpleVersionedSerialization writes is this version, the length and these bytes. */
    private static void add(List<Object> versioned, String serializerClass, Object value, Object tree) throws Exception {
        Object serializer = Reflect.create(serializerClass);
        byte[] data = Reflect.call(serializer, "serialize", value);
        versioned.add(Json.object("serializer", serializerClass, "version", Reflect.<Object>call(serializer, "getVersion"),
                "data", Vectors.hex(data), "value", tree));
    }
}
