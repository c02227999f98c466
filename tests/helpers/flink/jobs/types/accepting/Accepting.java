package accepting;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSchemaCompatibility;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputViewStreamWrapper;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.GenericMapData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.runtime.typeutils.InternalSerializers;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.utils.LogicalTypeParser;

/**
 * Reads lines of SQL type, tab, serializer snapshot in hex. Writes for each whether Flink's own serializer of the type
 * takes the snapshot as it is, and whether the serializer restored from it reads, copies and writes a value.
 */
public final class Accepting {
    private Accepting() {}

    public static void main(String[] args) throws Exception {
        List<String> out = new ArrayList<>();
        for (String line : Files.readAllLines(Paths.get(args[0]), StandardCharsets.UTF_8)) {
            String[] parts = line.split("\t");
            LogicalType type = LogicalTypeParser.parse(parts[0], Accepting.class.getClassLoader());
            out.add(parts[0] + "\t" + verdict(type, InternalSerializers.create(type), bytes(parts[1])));
        }
        Files.write(Paths.get(args[1]), out, StandardCharsets.UTF_8);
    }

    private static <T> String verdict(LogicalType type, TypeSerializer<T> own, byte[] snapshot) throws Exception {
        TypeSerializerSnapshot<T> old =
                TypeSerializerSnapshot.readVersionedSnapshot(in(snapshot), Accepting.class.getClassLoader());
        TypeSerializerSchemaCompatibility<T> found = own.snapshotConfiguration().resolveSchemaCompatibility(old);
        if (!found.isCompatibleAsIs()) {
            return found.toString();
        }
        @SuppressWarnings("unchecked")
        byte[] written = written(own, (T) value(type));
        TypeSerializer<T> restored = old.restoreSerializer();
        T read = restored.copy(restored.deserialize(in(written)));
        return Arrays.equals(written, written(restored, read)) ? "as is" : "another value";
    }

    private static Object value(LogicalType type) {
        switch (type.getTypeRoot()) {
            case INTEGER:
                return 7;
            case VARCHAR:
                return StringData.fromString("more than seven bytes");
            case DECIMAL:
                return DecimalData.fromBigDecimal(new BigDecimal("1.25"), 20, 2);
            case TIMESTAMP_WITHOUT_TIME_ZONE:
                return TimestampData.fromEpochMillis(5, 6);
            case ARRAY:
                return new GenericArrayData(new Object[] {value(type.getChildren().get(0)), null});
            case MAP:
                return map(value(type.getChildren().get(0)), value(type.getChildren().get(1)));
            case MULTISET:
                return map(value(type.getChildren().get(0)), 2);
            case ROW:
                return GenericRowData.of(type.getChildren().stream().map(Accepting::value).toArray());
            default:
                throw new IllegalArgumentException(type.toString());
        }
    }

    private static GenericMapData map(Object key, Object value) {
        Map<Object, Object> entries = new HashMap<>(Collections.singletonMap(key, value));
        return new GenericMapData(entries);
    }

    private static <T> byte[] written(TypeSerializer<T> serializer, T value) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        serializer.serialize(value, new DataOutputViewStreamWrapper(out));
        return out.toByteArray();
    }

    private static DataInputViewStreamWrapper in(byte[] bytes) {
        return new DataInputViewStreamWrapper(new ByteArrayInputStream(bytes));
    }

    private static byte[] bytes(String hex) {
        byte[] out = new byte[hex.length() / 2];
        for (int at = 0; at < out.length; at++) {
            out[at] = (byte) Integer.parseInt(hex.substring(2 * at, 2 * at + 2), 16);
        }
        return out;
    }
}
