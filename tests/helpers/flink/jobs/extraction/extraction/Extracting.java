package extraction;

import java.io.ByteArrayInputStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSchemaCompatibility;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.java.typeutils.PojoTypeInfo;
import org.apache.flink.api.java.typeutils.TypeExtractor;
import org.apache.flink.core.memory.DataInputViewStreamWrapper;

/**
 * Reads lines of field of {@link Fields}, tab, serializer snapshot in hex. Writes for each field whether the serializer
 * that Flink's type extraction gives it takes the snapshot as it is, the serializer of the snapshot, its own, and the
 * bytes that its own writes of a value.
 */
public final class Extracting {
    private Extracting() {}

    public static void main(String[] args) throws Exception {
        Map<String, String> snapshots = new HashMap<>();
        for (String line : Files.readAllLines(Paths.get(args[0]), StandardCharsets.UTF_8)) {
            String[] parts = line.split("\t");
            snapshots.put(parts[0], parts[1]);
        }
        List<String> out = new ArrayList<>();
        PojoTypeInfo<Fields> info = (PojoTypeInfo<Fields>) TypeExtractor.createTypeInfo(Fields.class);
        for (int at = 0; at < info.getArity(); at++) {
            String name = info.getPojoFieldAt(at).getField().getName();
            TypeSerializer<?> own = serializer(info.getPojoFieldAt(at).getTypeInformation());
            String snapshot = snapshots.get(name);
            String verdict = snapshot == null ? "none\t-" : verdict(own, snapshot);
            String value = Samples.written(own, info.getPojoFieldAt(at).getField().getGenericType());
            out.add(name + "\t" + verdict + "\t" + shown(own) + "\t" + value);
        }
        Files.write(Paths.get(args[1]), out, StandardCharsets.UTF_8);
    }

    private static <T> String verdict(TypeSerializer<T> own, String snapshot) {
        try {
            TypeSerializerSnapshot<T> old =
                    TypeSerializerSnapshot.readVersionedSnapshot(in(snapshot), Extracting.class.getClassLoader());
            TypeSerializerSchemaCompatibility<T> found = resolved(own.snapshotConfiguration(), old, own);
            String restored = shown(old.restoreSerializer());
            if (found.isCompatibleAsIs()) {
                return "as is\t" + restored;
            }
            return (found.isIncompatible() ? "INCOMPATIBLE" : "changed") + "\t" + restored;
        } catch (Exception | LinkageError error) {
            return "failed\t" + error;
        }
    }

    /** The method of Flink 2; up to 1.18 the old snapshot is asked about the new serializer. */
    @SuppressWarnings("unchecked")
    private static <T> TypeSerializerSchemaCompatibility<T> resolved(
            TypeSerializerSnapshot<T> current, TypeSerializerSnapshot<T> old, TypeSerializer<T> own) throws Exception {
        try {
            Method now = TypeSerializerSnapshot.class.getMethod("resolveSchemaCompatibility", TypeSerializerSnapshot.class);
            return (TypeSerializerSchemaCompatibility<T>) now.invoke(current, old);
        } catch (NoSuchMethodException older) {
            Method then = TypeSerializerSnapshot.class.getMethod("resolveSchemaCompatibility", TypeSerializer.class);
            return (TypeSerializerSchemaCompatibility<T>) then.invoke(old, own);
        }
    }

    private static TypeSerializer<?> serializer(TypeInformation<?> info) throws Exception {
        for (Method method : TypeInformation.class.getMethods()) {
            if (method.getName().equals("createSerializer")
                    && method.getParameterTypes()[0].getSimpleName().equals("SerializerConfig")) {
                Object config = ExecutionConfig.class.getMethod("getSerializerConfig").invoke(new ExecutionConfig());
                return (TypeSerializer<?>) method.invoke(info, config);
            }
        }
        Method older = TypeInformation.class.getMethod("createSerializer", ExecutionConfig.class);
        return (TypeSerializer<?>) older.invoke(info, new ExecutionConfig());
    }

    /** The names of a serializer and of all that it contains. */
    private static String shown(TypeSerializer<?> serializer) throws Exception {
        String name = serializer.getClass().getSimpleName().replace("Serializer", "");
        List<String> inside = new ArrayList<>();
        Object type = valueOf(serializer, "type");
        if (name.equals("Kryo")) {
            return "Kryo(" + ((Class<?>) type).getName().replaceAll(".*[.]", "") + ")";
        }
        Field[] fields = (Field[]) (name.equals("Pojo") ? valueOf(serializer, "fields") : null);
        for (String part : List.of("originalSerializer", "elementSerializer", "keySerializer", "valueSerializer",
                "componentSerializer", "leftSerializer", "rightSerializer")) {
            Object found = valueOf(serializer, part);
            if (found != null) {
                inside.add(shown((TypeSerializer<?>) found));
            }
        }
        Object several = valueOf(serializer, "fieldSerializers");
        if (several != null) {
            Object[] found = (Object[]) several;
            for (int at = 0; at < found.length; at++) {
                inside.add((fields == null ? "" : fields[at].getName() + ": ") + shown((TypeSerializer<?>) found[at]));
            }
        }
        return inside.isEmpty() ? name : name + "(" + String.join(", ", inside) + ")";
    }

    private static Object valueOf(Object owner, String name) throws Exception {
        for (Class<?> at = owner.getClass(); at != null; at = at.getSuperclass()) {
            for (Field field : at.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    field.setAccessible(true);
                    return field.get(owner);
                }
            }
        }
        return null;
    }

    private static DataInputViewStreamWrapper in(String hex) {
        byte[] out = new byte[hex.length() / 2];
        for (int at = 0; at < out.length; at++) {
            out[at] = (byte) Integer.parseInt(hex.substring(2 * at, 2 * at + 2), 16);
        }
        return new DataInputViewStreamWrapper(new ByteArrayInputStream(out));
    }
}
