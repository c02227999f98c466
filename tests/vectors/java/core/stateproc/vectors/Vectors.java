package stateproc.vectors;

import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;

/** Collects entries: a serializer, its snapshot, and values with the bytes Flink wrote for them. */
final class Vectors {
    private static final int PROXY_VERSION = 2;

    final List<Object> entries = new ArrayList<>();
    final Map<String, Object> document = Json.object();

    /** What may fail because a class is not in this release or a value is not supported by it. */
    interface Attempt {
        void run() throws Exception;
    }

    /** The JSON value of one Java value. */
    interface Encoder {
        Object encode(Object value) throws Exception;
    }

    /** Run something that not every release can do; say on stderr what was left out. */
    void attempt(String name, Attempt attempt) {
        try {
            attempt.run();
        } catch (Exception | LinkageError failure) {
            Throwable cause = failure.getCause() == null ? failure : failure.getCause();
            System.err.println("left out: " + name + ": " + cause);
            if (System.getenv("VECTORS_TRACE") != null) {
                cause.printStackTrace();
            }
        }
    }

    /** A serializer made by name, with values in their usual encoding. */
    void add(String name, TypeSerializer<?> serializer, Object... values) throws Exception {
        add(name, serializer, Encode::value, values);
    }

    /** The snapshot is taken after the values were written, as a backend that writes with this instance does. */
    void add(String name, TypeSerializer<?> serializer, Encoder encoder, Object... values) throws Exception {
        List<Object> cases = cases(name, serializer, encoder, values);
        append(name, serializer, snapshot(serializer), cases);
    }

    /** The snapshot is taken before any value is written, as the heap backend does. */
    Map<String, Object> addWithEarlySnapshot(String name, TypeSerializer<?> serializer, Object... values)
            throws Exception {
        String snapshot = snapshot(serializer);
        return append(name, serializer, snapshot, cases(name, serializer, Encode::value, values));
    }

    /** Values whose JSON form is given beside them: value, JSON, value, JSON, … */
    void addPairs(String name, TypeSerializer<?> serializer, Object... valuesAndTrees) throws Exception {
        List<Object> cases = new ArrayList<>();
        for (int i = 0; i < valuesAndTrees.length; i += 2) {
            cases.add(Json.object("data", hex(serialize(serializer, valuesAndTrees[i])), "value", valuesAndTrees[i + 1]));
        }
        append(name, serializer, snapshot(serializer), cases);
    }

    Map<String, Object> append(String name, TypeSerializer<?> serializer, String snapshot, List<Object> cases) {
        Map<String, Object> entry = Json.object(
                "name", name,
                "serializer", serializer.getClass().getName(),
                "getLength", serializer.getLength(),
                "snapshot", snapshot,
                "cases", cases);
        entries.add(entry);
        return entry;
    }

    List<Object> cases(String name, TypeSerializer<?> serializer, Encoder encoder, Object... values) throws Exception {
        List<Object> cases = new ArrayList<>();
        for (int i = 0; i < values.length; i++) {
            Object value = values[i];
            attempt(name + "[" + i + "]", () -> cases.add(
                    Json.object("data", hex(serialize(serializer, value)), "value", encoder.encode(value))));
        }
        if (cases.isEmpty() && values.length > 0) {
            throw new IllegalStateException("no value could be written");
        }
        return cases;
    }

    /** A serializer for a type, with the registrations of a configuration or none. */
    static TypeSerializer<?> serializer(TypeInformation<?> type, Class<?>... registered) throws Exception {
        return Reflect.call(type, "createSerializer", config(registered));
    }

    /** ExecutionConfig, or SerializerConfigImpl since 1.19. */
    static Object config(Class<?>... registered) throws Exception {
        boolean modern = Reflect.exists("org.apache.flink.api.common.serialization.SerializerConfigImpl");
        Object config = Reflect.create(modern
                ? "org.apache.flink.api.common.serialization.SerializerConfigImpl"
                : "org.apache.flink.api.common.ExecutionConfig");
        for (Class<?> type : registered) {
            Reflect.call(config, "registerPojoType", type);
        }
        return config;
    }

    static byte[] serialize(TypeSerializer<?> serializer, Object value) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        write(serializer, value, bytes);
        return bytes.toByteArray();
    }

    @SuppressWarnings("unchecked")
    private static <T> void write(TypeSerializer<T> serializer, Object value, ByteArrayOutputStream bytes)
            throws Exception {
        serializer.serialize((T) value, new DataOutputViewStreamWrapper(bytes));
    }

    static String snapshot(TypeSerializer<?> serializer) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputViewStreamWrapper out = new DataOutputViewStreamWrapper(bytes);
        out.writeInt(PROXY_VERSION);
        TypeSerializerSnapshot.writeVersionedSnapshot(out, serializer.snapshotConfiguration());
        return hex(bytes.toByteArray());
    }

    static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder(bytes.length * 2);
        for (byte unit : bytes) {
            text.append(Character.forDigit(unit >> 4 & 15, 16)).append(Character.forDigit(unit & 15, 16));
        }
        return text.toString();
    }
}
