package stateproc.types;

import java.io.ByteArrayOutputStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;

/** Writes the snapshot of each type's serializer: {"name of the type": hex of the versioned snapshot}. */
public final class Main {
    private static final Map<String, String> FOUND = new LinkedHashMap<>();

    private Main() {}

    public static void main(String[] args) throws Exception {
        switch (args[1]) {
            case "plain":
                PlainTypes.all();
                break;
            case "sql":
                SqlTypes.all();
                break;
            default:
                AvroTypes.all();
        }
        StringBuilder json = new StringBuilder();
        for (Map.Entry<String, String> entry : FOUND.entrySet()) {
            String name = entry.getKey().replace("\\", "\\\\").replace("\"", "\\\"");
            json.append(json.length() == 0 ? "{\n" : ",\n").append('"').append(name).append("\": \"");
            json.append(entry.getValue()).append('"');
        }
        Files.write(Path.of(args[0]), json.append("\n}\n").toString().getBytes(StandardCharsets.UTF_8));
    }

    /** Notes the snapshot of the serializer that Flink makes for a type. */
    static void type(String name, TypeInformation<?> type) throws Exception {
        serializer(name, serializerOf(type));
    }

    static void serializer(String name, TypeSerializer<?> serializer) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        TypeSerializerSnapshot.writeVersionedSnapshot(
                new DataOutputViewStreamWrapper(bytes), serializer.snapshotConfiguration());
        StringBuilder hex = new StringBuilder();
        for (byte one : bytes.toByteArray()) {
            hex.append(String.format("%02x", one));
        }
        FOUND.put(name, hex.toString());
    }

    /** createSerializer takes an ExecutionConfig in Flink 1, its SerializerConfig in Flink 2. */
    static TypeSerializer<?> serializerOf(TypeInformation<?> type) throws Exception {
        ExecutionConfig config = new ExecutionConfig();
        for (Method method : TypeInformation.class.getMethods()) {
            if (method.getName().equals("createSerializer")) {
                Object argument = config;
                if (!method.getParameterTypes()[0].isInstance(config)) {
                    argument = ExecutionConfig.class.getMethod("getSerializerConfig").invoke(config);
                }
                return (TypeSerializer<?>) method.invoke(type, argument);
            }
        }
        throw new IllegalStateException("no createSerializer");
    }
}
