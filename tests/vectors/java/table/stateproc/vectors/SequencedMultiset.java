package stateproc.vectors;

import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;

/** The state of the sink materializer's second version: a linked list of rows by sequence number (2.3). */
final class SequencedMultiset {
    private static final String LINKED = "org.apache.flink.table.runtime.sequencedmultisetstate.linked.";
    private static final String GENERATED = "org.apache.flink.table.runtime.generated.";

    private SequencedMultiset() {}

    static void write(Vectors vectors) throws Exception {
        LogicalType type = RowType.of(DataTypes.STRING().getLogicalType(), DataTypes.INT().getLogicalType());
        TypeSerializer<?> rows = TableTypes.internal(type);
        RowData row = GenericRowData.of(StringData.fromString("é"), 5);
        Object tree = TableJson.of(row, type);
        vectors.addPairs("MetaSqnInfo", Reflect.create(LINKED + "MetaSqnInfoSerializer"),
                Reflect.create(LINKED + "MetaSqnInfo", 7L, 3L), Json.object("highSqn", 7, "size", 3));
        vectors.addPairs("RowSqnInfo", Reflect.create(LINKED + "RowSqnInfoSerializer"),
                Reflect.create(LINKED + "RowSqnInfo", 1L, 2L), Json.object("firstSqn", 1, "lastSqn", 2));
        vectors.addPairs("Node", Reflect.create(LINKED + "NodeSerializer", rows),
                Reflect.create(LINKED + "Node", row, 4L, 3L, null, 9L, -1L), node(tree, 4L, 3L, null, 9L, -1L),
                Reflect.create(LINKED + "Node", row, 1L, null, null, null, 1000L), node(tree, 1L, null, null, null, 1000L));
        Object equaliser = Reflect.create(GENERATED + "GeneratedRecordEqualiser", "Equaliser", "class Equaliser {}", new Object[0]);
        Object hash = Reflect.create(GENERATED + "GeneratedHashFunction", "Hash", "class Hash {}", new Object[0], new org.apache.flink.configuration.Configuration());
        vectors.addPairs("RowDataKey", Reflect.create(LINKED + "RowDataKeySerializer", rows, (Object) equal(), (Object) hashing(), equaliser, hash),
                Reflect.create(LINKED + "RowDataKey", row, (Object) equal(), (Object) hashing()), tree);
    }

    private static Object node(Object row, Long sqn, Long previous, Long next, Long nextForRecord, Long timestamp) {
        return Json.object("row", row, "sqn", sqn, "prevSqn", previous, "nextSqn", next,
                "nextSqnForRecord", nextForRecord, "timestamp", timestamp);
    }

    private static org.apache.flink.table.runtime.generated.RecordEqualiser equal() {
        return (left, right) -> left.equals(right);
    }

    private static org.apache.flink.table.runtime.generated.HashFunction hashing() {
        return Object::hashCode;
    }
}
